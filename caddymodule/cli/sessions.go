package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
)

func sessionCommands() *cobra.Command {
	return group("session", "Lists and ends sign-in sessions", listSessionsCommand(), endSessionCommand())
}

func listSessionsCommand() *cobra.Command {
	var most int
	var who, address, client, site, device string
	cmd := &cobra.Command{
		Use: "list", Short: "Lists all sessions, or those of one person", Args: cobra.NoArgs,
		Example: "  caddy gatehouse session list --person ada@example.com\n  caddy gatehouse session list --ip 203.0.113.7",
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := query(map[string]string{"person": who, "address": address, "client": client, "site": site, "device": device})
			return printList(cmd, "/sessions", q, most, "session", sessionHeader, sessionCells)
		},
	}
	cmd.Flags().StringVar(&who, "person", "", "The username or id of the person")
	cmd.Flags().StringVar(&address, "ip", "", "Only sessions last used from this IP address")
	cmd.Flags().StringVar(&client, "client", "", "Only sessions in which this client was given tokens")
	cmd.Flags().StringVar(&site, "site", "", "Only sessions in which this protected site was entered, such as https://wiki.example.com")
	cmd.Flags().StringVar(&device, "device", "", "Only sessions of such a device: \"Firefox / Linux\"")
	limitFlag(cmd, &most)
	completeFlag(cmd, "client", completeClients)
	completeFlag(cmd, "person", completePersons)
	return cmd
}

var sessionHeader = []string{"ID", "PERSON", "SINCE", "LAST USED", "LEVEL", "ADDRESS"}

func sessionCells(s *adminapi.SessionInfo) []string {
	return []string{s.ID, s.Username, day(s.Since), day(s.Seen), strconv.Itoa(s.Level), s.Address}
}

func endSessionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "end <id>", Short: "Ends a session and everything that hangs on it", Args: cobra.ExactArgs(1),
		Long: `Ends a sign-in session: the person has to sign in again in that browser, sites and tokens of the session end at
once, and clients are told.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return do(cmd, "/sessions/end", map[string]string{"session": args[0]}, "ended session "+args[0])
		},
	}
}

package cli

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
)

func sessionCommands() *cobra.Command {
	return group("session", "Lists and ends sign-in sessions", listSessionsCommand(), endSessionCommand())
}

func listSessionsCommand() *cobra.Command {
	q := url.Values{}
	var most int
	var who, address, client, site, device string
	cmd := &cobra.Command{
		Use: "list", Short: "Lists all sessions, or those of one person", Args: cobra.NoArgs,
		Example: "  caddy gatehouse session list --person ada@example.com\n  caddy gatehouse session list --ip 203.0.113.7",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for name, value := range map[string]string{"person": who, "address": address, "client": client, "site": site, "device": device} {
				if value != "" {
					q.Set(name, value)
				}
			}
			all, more, err := readSessions(cmd, q, most)
			if err != nil {
				return err
			}
			return printResult(cmd, all, sessionTable(all, more).lines()...)
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

// readSessions returns up to most sessions that q selects. 0: all.
func readSessions(cmd *cobra.Command, q url.Values, most int) (all []adminapi.SessionInfo, more bool, err error) {
	all = []adminapi.SessionInfo{}
	for after := ""; ; {
		var page adminapi.SessionsPage
		q.Set("after", after)
		q.Set("limit", strconv.Itoa(adminapi.MaxPersons))
		if err := call(cmd, "/sessions?"+q.Encode(), nil, &page); err != nil {
			return nil, false, err
		}
		all = append(all, page.Items...)
		if most > 0 && len(all) >= most {
			return all[:most], len(all) > most || page.Next != "", nil
		}
		if after = page.Next; after == "" {
			return all, false, nil
		}
	}
}

func sessionTable(all []adminapi.SessionInfo, more bool) *table {
	t := table{noun: "session", header: []string{"ID", "PERSON", "SINCE", "LAST USED", "LEVEL", "ADDRESS"}}
	for _, s := range all {
		t.rows = append(t.rows, []string{s.ID, s.Username, day(s.Since), day(s.Seen), strconv.Itoa(s.Level), s.Address})
	}
	if more {
		t.more = "There are more: use --limit."
	}
	return &t
}

func endSessionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "end <id>", Short: "Ends a session and everything that hangs on it", Args: cobra.ExactArgs(1),
		Long: `Ends a sign-in session: the person has to sign in again in that browser, sites and tokens of the session end at
once, and clients are told.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var answer adminapi.Outcome
			if err := call(cmd, "/sessions/end", map[string]string{"session": args[0]}, &answer); err != nil {
				return err
			}
			return printResult(cmd, answer, "ended session "+args[0])
		},
	}
}

func limitFlag(cmd *cobra.Command, to *int) {
	cmd.Flags().IntVar(to, "limit", 0, "Print at most so many (default: all)")
}

// checkLimit refuses a negative --limit.
func checkLimit(n int) error {
	if n < 0 {
		return fmt.Errorf("--limit %d is negative", n)
	}
	return nil
}

package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
)

func resealCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reseal", Short: "Seals with the first encryption key what an older one has sealed", Args: cobra.NoArgs,
		Long: `Seals signing keys, settings, key pairs, webhooks of alerts, authorization headers of shared signals, and
the secrets of authenticator apps and PINs with the first encryption key, where an older one has sealed
them, names the clients with a secret that only an older key can check, and says whether older keys can be
removed from the Caddyfile. The server does the same automatically after a start with several keys.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all adminapi.Resealed
			for {
				var part adminapi.Resealed
				if err := call(cmd, "/keys/reseal", adminapi.ResealRequest{After: all.Next}, &part); err != nil {
					return err
				}
				if all.Add(part); all.Next == "" {
					break
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "%s looked at\n", count(all.People, "person"))
			}
			lines := []string{
				fmt.Sprintf("Sealed again: %s, %s of %s.", count(all.SigningKeys, "signing key"), count(all.Sealed, "secret"),
					count(all.People, "person")),
				fmt.Sprintf("Opened by no key: %s.", count(all.Left, "secret")),
			}
			if len(all.Clients) > 0 {
				lines = append(lines, "Secrets hashed with another key: those of "+all.NamedClients()+".")
			}
			return printResult(cmd, all, append(lines, "In short, "+all.Verdict()+".")...)
		},
	}
}

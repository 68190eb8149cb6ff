package cli

import (
	"fmt"
	"net/url"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/caddymodule/metrics"
	"github.com/gatehouse-id/gatehouse/idp"
)

func providerCommands() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "Lists the identity providers of the Caddyfile and of the configuration API", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			header := []string{"ID", "PROTOCOL", "NAME", "FROM", "STATE"}
			return showTable(cmd, "/idps", nil, "identity provider", header, func(p *adminapi.ProviderInfo) []string {
				from, state := "Caddyfile", "on"
				if p.Managed {
					from = "configuration API"
				}
				if p.Disabled {
					state = "off"
				}
				return []string{p.ID, p.Protocol, p.Name, from, state}
			})
		},
	}
	test := &cobra.Command{
		Use: "test <id>", Short: "Tries, step by step, what a sign-in at an identity provider needs", Args: cobra.ExactArgs(1),
		ValidArgsFunction: completeProviders,
		Long: `Lets the running server try what a sign-in at an identity provider needs: its metadata and keys, its certificates
and clock, its addresses, and whether it knows Gatehouse. Each step is printed, with what to do where one
fails. It signs no one in. The exit status is 0 only if no step has failed.

An OpenID or OAuth provider is asked to exchange a code that no one has issued: one that knows the client
refuses the code, one that does not refuses the client. At a directory the account that searches signs in,
and reads the base.`,
		Example: "  caddy gatehouse idp test staff",
		RunE: func(cmd *cobra.Command, args []string) error {
			var p adminapi.ProviderInfo
			if err := call(cmd, "/idps/test?idp="+url.QueryEscape(args[0]), nil, &p); err != nil {
				return err
			}
			if err := printResult(cmd, p, idpStepLines(p.Steps)...); err != nil {
				return err
			}
			if p.Answer != "ok" {
				return fmt.Errorf("sign-in with the identity provider %s does not work: %s", p.ID, p.Answer)
			}
			return nil
		},
	}
	return group("idp", "Lists and tests identity providers", list, test)
}

func idpStepLines(steps idp.Steps) (lines []string) {
	for _, s := range steps {
		line := fmt.Sprintf("%-8s %s: %s", s.Result, s.Name, s.What)
		if s.Fix != "" {
			line += "; " + s.Fix
		}
		lines = append(lines, line)
	}
	return lines
}

func mailCommands() *cobra.Command {
	test := &cobra.Command{
		Use: "test <e-mail address>", Short: "Sends a test message", Args: cobra.ExactArgs(1),
		Long: `Sends a test message through the mail server of the configuration, without the queue, and prints the answer of
the server.`,
		Example: "  caddy gatehouse mail test ada@example.com",
		RunE: func(cmd *cobra.Command, args []string) error {
			return do(cmd, "/mail/test", map[string]string{"to": args[0]}, "The mail server accepted a message to "+args[0]+".")
		},
	}
	return group("mail", "Tests e-mail", test)
}

func keyCommands() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "Lists the keys that sign ID tokens and JWT access tokens", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showKeys(cmd, "/keys", nil)
		},
	}
	rotate := &cobra.Command{
		Use: "rotate", Short: "Publishes a successor of every signing key", Args: cobra.NoArgs,
		Long: `Publishes a successor of every signing key now. It begins to sign a day later, when every client can have read it,
and the previous key is published for two days more. For an algorithm whose successor is
waiting already nothing happens. Keys rotate automatically every 90 days.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showKeys(cmd, "/keys/rotate", struct{}{})
		},
	}
	retire := &cobra.Command{
		Use: "retire <kid>", Short: "Takes a signing key out of use", Args: cobra.ExactArgs(1),
		Long: `Takes a signing key out of use immediately, such as one that may have leaked: it signs nothing more and is not
published, and tokens that it has signed fail wherever keys are fetched again. If it was the one
that signs, its successor or a new key signs from now on. Other servers of the storage follow
within a minute. To replace keys without an interruption use keys rotate.`,
		Example: "caddy gatehouse keys retire 3q2-7wAAAAAAAAAAAAAAAA",
		RunE: func(cmd *cobra.Command, args []string) error {
			return showKeys(cmd, "/keys/retire", adminapi.KeyRequest{KeyID: args[0]})
		},
	}
	return group("keys", "Lists, rotates and retires the signing keys", list, rotate, retire, resealCommand())
}

func showKeys(cmd *cobra.Command, path string, in any) error {
	header := []string{"ALG", "KID", "USE", "SIGNS FROM", "SIGNS UNTIL", "PUBLISHED UNTIL"}
	return showTable(cmd, path, in, "key", header, func(k *keys.Info) []string {
		return []string{k.Algorithm, k.ID, k.Use, day(k.ActiveFrom), day(k.RetiresAt), day(k.GoneAt)}
	})
}

// day returns a time for a list, in the local zone. A zero time is a dash.
func day(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04")
}

// versions are the versions of a build and its parts.
type versions struct {
	Gatehouse string `json:"gatehouse"`
	Caddy     string `json:"caddy"`
	Go        string `json:"go"`
	Platform  string `json:"platform"`
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Prints the versions of Gatehouse, Caddy and Go in this binary", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := buildVersions()
			return printResult(cmd, v, fmt.Sprintf("gatehouse %s, caddy %s, %s, %s", v.Gatehouse, v.Caddy, v.Go, v.Platform))
		},
	}
}

func buildVersions() versions {
	return versions{
		Gatehouse: metrics.Version(), Caddy: metrics.CaddyVersion(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

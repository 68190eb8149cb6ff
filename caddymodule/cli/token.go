package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

func tokenCommands() *cobra.Command {
	return group("token", "Issues, reads and revokes access tokens, and makes action tokens", issueTokenCommand(), introspectCommand(),
		revokeTokenCommand(), revokeAllCommand(),
		makeActionTokenCommand(), revokeActionTokensCommand())
}

func issueTokenCommand() *cobra.Command {
	var in adminapi.IssueRequest
	var lifetime time.Duration
	cmd := &cobra.Command{
		Use:   "issue --client <id>",
		Short: "Issues an access token to a client, as client_credentials would",
		Long: `Issues an access token of a client itself, as the grant client_credentials would, without
the client's secret. Standard output has only the token.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if in.Client == "" {
				return errors.New("--client is missing")
			}
			if lifetime != 0 {
				in.Lifetime = caddyfileutil.Duration(lifetime.String())
			}
			return tell(cmd, "/tokens", in, func(out *adminapi.AccessToken) string { return out.Token })
		},
	}
	f := cmd.Flags()
	f.StringVar(&in.Client, "client", "", "The client's id; it must have the grant client_credentials")
	f.StringSliceVar(&in.Scope, "scope", nil, "The scopes, with commas between (default: the client's)")
	f.StringSliceVar(&in.Resources, "resource", nil, "The resources the token is for (RFC 8707)")
	f.DurationVar(&lifetime, "lifetime", 0, "How long it is valid (default: the client's)")
	return cmd
}

func introspectCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "introspect [<token>]",
		Short: "Shows an access token as it is now",
		Long: `Shows whether an access token is active, and its claims. The token is better given by
standard input than as an argument, which everyone on the machine can see.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			token, err := readToken(cmd, args)
			if err != nil {
				return err
			}
			return show(cmd, "/tokens/introspect", map[string]string{"token": token}, func(out *adminapi.Introspection) []string {
				if !out.Active {
					return []string{"not active"}
				}
				lines := []string{"active until " + out.ExpiresAt.Format(time.RFC3339), "client " + out.ClientID, "sub    " + out.Subject}
				if out.Username != "" {
					lines = append(lines, "user   "+out.Username)
				}
				lines = append(lines, "scope  "+strings.Join(out.Scope, " "))
				if out.UsageLimit > 0 {
					lines = append(lines, fmt.Sprintf("used   %d of %d times", out.UsageCount, out.UsageLimit))
				}
				return lines
			})
		},
	}
}

func revokeTokenCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke [<token>]",
		Short: "Revokes an access or refresh token",
		Long: `Revokes a token; its access tokens end with a refresh token. An unknown token is not
an error. It is better given by standard input than as an argument, which everyone on the
machine can see.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			token, err := readToken(cmd, args)
			if err != nil {
				return err
			}
			return tell(cmd, "/tokens/revoke", map[string]string{"token": token}, func(out *adminapi.Outcome) string { return out.Status })
		},
	}
}

// readToken takes the argument, or asks, or reads the first line of standard input.
func readToken(cmd *cobra.Command, args []string) (string, error) {
	if len(args) == 1 && args[0] != "-" {
		return args[0], nil
	}
	in, ok := cmd.InOrStdin().(*os.File)
	if ok && term.IsTerminal(int(in.Fd())) {
		fmt.Fprint(cmd.ErrOrStderr(), "Token: ") //nolint:errcheck // the terminal is gone
	}
	token, err := firstLine(cmd.InOrStdin())
	if errors.Is(err, errNoPassword) {
		err = errors.New("no token given: type it, give it as the argument, or by standard input")
	}
	return token, err
}

func revokeAllCommand() *cobra.Command {
	return yesFlag(&cobra.Command{
		Use: "revoke-all", Short: "Ends every token, code, grant and site session of everyone", Args: cobra.NoArgs,
		Long: `Ends every token, code, grant and site session that was issued before now, after a leak. Sign-in sessions at the
issuer stay, so people get new tokens without a password; clients authenticate again.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := confirm(cmd, "End every token of everyone?"); err != nil {
				return err
			}
			return do(cmd, "/tokens/revoke-all", struct{}{}, "ended every token")
		},
	})
}

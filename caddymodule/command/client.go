package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/client"
)

func clientCommands() *cobra.Command {
	return group("client", "Adds and lists OAuth clients", addClientCommand(), listClientsCommand())
}

func addClientCommand() *cobra.Command {
	var c client.Client
	var file, library, address string
	cmd := &cobra.Command{
		Use:   "add [<id>]",
		Short: "Adds an OAuth client and prints its secret, once",
		Long: `Adds an OAuth client to those of the configuration, and prints the secret made
for it, unless it is public. The secret is stored as a hash: note it now. With --file the
client is read from a JSON file in the form of the configuration's clients.

With --for it becomes the client that a library or product expects: redirect URI, grants,
scopes, and the claims of people in the ID token. Other options win over those.

  caddy gatehouse client add wiki --for oauth2-proxy --url https://wiki.example.com

Known: ` + strings.Join(client.Libraries(), ", ") + `.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file != "" {
				raw, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				if err := json.Unmarshal(raw, &c); err != nil {
					return fmt.Errorf("read %s: %w", file, err)
				}
			}
			if len(args) == 1 {
				c.ID = args[0]
			}
			if c.ID == "" {
				return errors.New("the id is missing")
			}
			if library != "" {
				if err := c.For(library, address); err != nil {
					return err
				}
			} else if address != "" {
				return errors.New("--url is the address of an application for --for, which says what it is made with")
			}
			var added clientCredentials
			if err := call(cmd, "/clients", c, &added); err != nil {
				return err
			}
			lines := []string{"added client " + added.ID}
			if added.Secret != "" {
				lines = append(lines, "secret "+added.Secret, "Note it now: it cannot be shown again.")
			}
			for _, w := range added.Warnings {
				lines = append(lines, "warning: "+w)
			}
			return printResult(cmd, added, lines...)
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "file", "", "Read the client from a JSON file")
	f.StringVar(&library, "for", "", "Make the client that a library or product expects: "+strings.Join(client.Libraries(), ", "))
	f.StringVar(&address, "url", "", "With --for: the address of the application")
	f.StringVar(&c.Name, "name", "", "The name that people see")
	f.BoolVar(&c.Public, "public", false, "The client cannot keep a secret and must use PKCE")
	f.StringSliceVar(&c.RedirectURIs, "redirect-uris", nil, "Where the browser may be sent after authorization")
	f.StringSliceVar(&c.PostLogoutRedirectURIs, "post-logout-redirect-uris", nil, "Where the browser may be sent after sign-out")
	f.StringSliceVar(&c.Grants, "grants", nil, "authorization_code, refresh_token, client_credentials, id_token, implicit, password, validate_bearer")
	f.StringSliceVar(&c.Scopes, "scopes", nil, "The scopes it may ask for")
	f.StringSliceVar(&c.DefaultScopes, "default-scopes", nil, "The scopes it gets when it asks for none")
	f.StringSliceVar(&c.Audiences, "audiences", nil, "The resources it may ask tokens for")
	f.StringVar(&c.Consent, "consent", "", "on, off or always")
	f.StringVar(&c.AuthMethod, "auth-method", "", "post (default: in the form or Basic credentials), basic or private_key_jwt")
	f.BoolVar(&c.IDTokenClaims, "id-token-claims", false, "The claims of the scopes are in the ID token too")
	f.BoolVar(&c.PasswordOnly, "password-only", false, "The grant password signs people in who have set up a second factor, without it")
	f.BoolVar(&c.PKCERequired, "pkce-required", false, "The client must use PKCE")
	return cmd
}

func listClientsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Lists the clients of the configuration and those added by command", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list []json.RawMessage
			if err := call(cmd, "/clients", nil, &list); err != nil {
				return err
			}
			lines := []string{fmt.Sprintf("%d clients", len(list))}
			for _, raw := range list {
				var c struct {
					ID     string   `json:"id"`
					Name   string   `json:"name"`
					Public bool     `json:"public"`
					Grants []string `json:"grants"`
				}
				if err := json.Unmarshal(raw, &c); err != nil {
					return err
				}
				kind := "confidential"
				if c.Public {
					kind = "public"
				}
				lines = append(lines, strings.Join([]string{c.ID, kind, c.Name, strings.Join(c.Grants, ",")}, "\t"))
			}
			return printResult(cmd, list, lines...)
		},
	}
}

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/caddymodule/client"
)

func clientCommands() *cobra.Command {
	cmd := group("client", "Adds, lists, changes and removes OAuth clients", addClientCommand(), listClientsCommand())
	cmd.AddCommand(completeArguments(completeClients,
		showClientCommand(), setClientCommand(),
		disableCommand("disable", "Switches a client off: its tokens are inactive until it is enabled", true),
		disableCommand("enable", "Switches a disabled client on again", false),
		rotateSecretCommand(), revokeClientCommand(), removeClientCommand())...)
	return cmd
}

// clientFlags are the members of a client that flags set, by the names of the flags. "add" and "set" share them.
func clientFlags(f *pflag.FlagSet, c *client.Client) {
	f.StringVar(&c.Name, "name", "", "The name that people see")
	f.StringSliceVar(&c.RedirectURIs, "redirect-uris", nil, "Where the browser may be sent after authorization")
	f.StringSliceVar(&c.PostLogoutRedirectURIs, "post-logout-redirect-uris", nil, "Where the browser may be sent after sign-out")
	f.StringSliceVar(&c.Grants, "grants", nil,
		"authorization_code, refresh_token, client_credentials, id_token, implicit, password, validate_bearer, device_code, jwt_bearer, token_exchange")
	f.StringSliceVar(&c.Scopes, "scopes", nil, "The scopes it may ask for")
	f.StringSliceVar(&c.DefaultScopes, "default-scopes", nil, "The scopes it gets when it asks for none")
	f.StringSliceVar(&c.Audiences, "audiences", nil, "The resources it may ask tokens for")
	f.StringSliceVar(&c.Groups, "groups", nil, "The groups of which a person must be in one to use it")
	f.StringSliceVar(&c.IDPs, "idps", nil, "The identity providers that people can sign in by, identity is Gatehouse's own (default: identity)")
	f.StringVar(&c.Consent, "consent", "", "on, off or always")
	f.StringVar(&c.AuthMethod, "auth-method", "",
		"post (default: in the form or Basic credentials), basic, private_key_jwt, tls_client_auth or self_signed_tls_client_auth")
	f.Var(subjectFlag{c}, "certificate-subject", "The name in the certificate of tls_client_auth, such as san_dns=robot.example.com")
	f.BoolVar(&c.IDTokenClaims, "id-token-claims", false, "The claims of the scopes are in the ID token too")
	f.BoolVar(&c.PasswordOnly, "password-only", false, "The grant password signs people in who have set up a second factor, without it")
	f.StringVar(&c.SecondFactor, "second-factor", "", "When sign-ins need a second step: when_set_up, always or on_demand")
	f.StringVar(&c.Plan, "plan", "", "The plan whose limits hold for it")
	f.StringVar(&c.Contact, "contact", "", "The e-mail address of its owner, who is told when a quota is nearly used up")
	f.BoolVar(&c.PKCERequired, "pkce-required", false, "The client must use PKCE")
	f.BoolVar(&c.Native, "native", false, "An application on people's devices: any loopback port, private schemes of any form")
	f.BoolVar(&c.PARRequired, "par-required", false, "The client must push its authorization requests")
	f.BoolVar(&c.FAPI2, "fapi2", false, "The client follows the FAPI 2.0 Security Profile")
	f.BoolVar(&c.MTLSRequired, "mtls-required", false, "The access tokens of the client are bound to its certificate (RFC 8705)")
	f.StringSliceVar(&c.DetailTypes, "authorization-details-types", nil, "The types of authorization details it may ask for (RFC 9396)")
	f.BoolVar(&c.SignedRequestRequired, "require-signed-request-object", false, "The client must sign its authorization requests (RFC 9101)")
	f.StringVar(&c.RequestAlg, "request-object-signing-alg", "",
		"The only signature of its authorization requests: RS256, PS256, ES256 or EdDSA")
	f.StringVar(&c.ResponseAlg, "authorization-signed-response-alg", "",
		"The signature of its authorization responses, where it asks for signed ones: RS256, ES256 or EdDSA")
	f.BoolVar(&c.DPoPRequired, "dpop-required", false, "The access tokens of the client must be bound to a key (DPoP)")
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

Known: ` + strings.Join(client.Libraries(), ", ") + `.`,
		Example: `  caddy gatehouse client add shop --redirect-uris https://shop.example.com/cb --grants authorization_code --scopes openid,profile
  caddy gatehouse client add wiki --for oauth2-proxy --url https://wiki.example.com`,
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
			var added adminapi.ClientCredentials
			if err := call(cmd, "/clients", c, &added); err != nil {
				return err
			}
			return printCredentials(cmd, "added client "+added.ID, added)
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "file", "", "Read the client from a JSON file")
	f.StringVar(&library, "for", "", "Make the client that a library or product expects: "+strings.Join(client.Libraries(), ", "))
	f.StringVar(&address, "url", "", "With --for: the address of the application")
	f.BoolVar(&c.Public, "public", false, "The client cannot keep a secret and must use PKCE")
	clientFlags(f, &c)
	return cmd
}

func printCredentials(cmd *cobra.Command, done string, c adminapi.ClientCredentials) error {
	lines := []string{done}
	if c.Secret != "" {
		lines = append(lines, "secret "+c.Secret, "Note it now: it cannot be shown again.")
	}
	for _, w := range c.Warnings {
		lines = append(lines, "warning: "+w)
	}
	return printResult(cmd, c, lines...)
}

// listedClient is the view of a client in lists.
type listedClient struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Public   bool     `json:"public"`
	Grants   []string `json:"grants"`
	Disabled bool     `json:"disabled"`
	Stored   bool     `json:"stored"`
	Origin   string   `json:"origin"`
	Place    string   `json:"place"`
	KeyIDs   []string `json:"key_ids"`

	AccessTokenAlg string `json:"access_token_alg"`
}

// authMethod says in words how a client authenticates, as --auth-method names it.
func authMethod(c *client.Client) string {
	switch {
	case c.Public:
		return "none"
	case c.AuthMethod == "post":
		return "post (in the form, or Basic credentials)"
	case c.AuthMethod == "basic":
		return "basic (Basic credentials alone)"
	}
	return c.AuthMethod
}

func (c *listedClient) kind() string {
	if c.Public {
		return "public"
	}
	return "confidential"
}

func (c *listedClient) from() string {
	switch {
	case c.Place != "":
		return c.Place
	case c.Origin == "configuration":
		return "Caddyfile"
	}
	return c.Origin
}

func (c *listedClient) state() string {
	if c.Disabled {
		return "disabled"
	}
	return "enabled"
}

func listClientsCommand() *cobra.Command {
	var match string
	cmd := &cobra.Command{
		Use: "list", Short: "Lists the clients of the Caddyfile and those added by command", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list []json.RawMessage
			if err := call(cmd, "/clients?match="+url.QueryEscape(match), nil, &list); err != nil {
				return err
			}
			t := table{noun: "client", header: []string{"ID", "KIND", "STATE", "FROM", "NAME", "GRANTS"}}
			for _, raw := range list {
				var c listedClient
				if err := json.Unmarshal(raw, &c); err != nil {
					return err
				}
				t.rows = append(t.rows, []string{c.ID, c.kind(), c.state(), c.from(), c.Name, strings.Join(c.Grants, ",")})
			}
			return printResult(cmd, list, t.lines()...)
		},
	}
	cmd.Flags().StringVar(&match, "match", "", "Only those whose id or name contains this text")
	return cmd
}

func showClientCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show <id>", Short: "Shows a client, without its secrets", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var raw json.RawMessage
			if err := call(cmd, "/clients/show?client="+url.QueryEscape(args[0]), nil, &raw); err != nil {
				return err
			}
			var in listedClient
			var c client.Client
			if err := errors.Join(json.Unmarshal(raw, &in), json.Unmarshal(raw, &c)); err != nil {
				return err
			}
			var f fields
			f.add("id", "%s", c.ID)
			f.add("name", "%s", c.Name)
			f.add("kind", "%s", in.kind())
			if c.Native {
				f.add("native", "yes: any loopback port")
			}
			f.add("state", "%s", in.state())
			f.add("from", "%s", in.from())
			f.add("auth method", "%s", authMethod(&c))
			for name, list := range orderedLists(&c) {
				f.add(name, "%s", strings.Join(list, " "))
			}
			if in.AccessTokenAlg != "" {
				f.add("access tokens", "JWT, %s", in.AccessTokenAlg)
			}
			f.add("consent", "%s", c.Consent)
			f.add("subjects", "%s", c.SubjectType)
			f.add("keys", "%s", strings.Join(append(in.KeyIDs, c.JWKS), " "))
			f.add("back-channel logout", "%s", c.BackchannelLogoutURI)
			f.add("front-channel logout", "%s", c.FrontchannelLogoutURI)
			f.add("sign-in begins at", "%s", c.InitiateLoginURI)
			f.add("logo", "%s", c.Logo)
			return printResult(cmd, raw, f.lines()...)
		},
	}
}

// orderedLists yields the lists of a client with their names.
func orderedLists(c *client.Client) func(yield func(string, []string) bool) {
	return func(yield func(string, []string) bool) {
		for _, l := range []struct {
			name string
			list []string
		}{
			{"grants", c.Grants},
			{"scopes", c.Scopes},
			{"default scopes", c.DefaultScopes},
			{"redirect URIs", c.RedirectURIs},
			{"post-logout redirect URIs", c.PostLogoutRedirectURIs},
			{"audiences", c.Audiences},
			{"authorization details", c.DetailTypes},
			{"identity providers", c.IDPs},
			{"origins", c.Origins},
		} {
			if !yield(l.name, l.list) {
				return
			}
		}
	}
}

func setClientCommand() *cobra.Command {
	var in adminapi.ClientChange
	cmd := &cobra.Command{
		Use: "set <id>", Short: "Changes a client that was added by command", Args: cobra.ExactArgs(1),
		Long: `Changes the members of a client that the flags name; a list replaces the previous list. Clients of the Caddyfile are
changed there.`,
		Example: "  caddy gatehouse client set shop --scopes openid,profile,email",
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Client.ID = args[0]
			cmd.Flags().Visit(func(f *pflag.Flag) {
				if name := strings.ReplaceAll(f.Name, "-", "_"); adminapi.ClientMembers[name] != nil {
					in.Members = append(in.Members, name)
				}
			})
			if len(in.Members) == 0 {
				return errors.New("nothing to change: give at least one flag, such as --name")
			}
			slices.Sort(in.Members)
			return do(cmd, "/clients/change", in, "changed client "+args[0])
		},
	}
	clientFlags(cmd.Flags(), &in.Client)
	return cmd
}

func disableCommand(use, short string, disabled bool) *cobra.Command {
	return &cobra.Command{
		Use: use + " <id>", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := adminapi.ClientChange{Client: client.Client{ID: args[0], Disabled: disabled}, Members: []string{"disabled"}}
			return do(cmd, "/clients/change", in, args[0]+" is "+(&listedClient{Disabled: disabled}).state())
		},
	}
}

func rotateSecretCommand() *cobra.Command {
	var in adminapi.ClientRequest
	cmd := &cobra.Command{
		Use: "rotate-secret <id>", Short: "Gives a client a new secret and prints it, once", Args: cobra.ExactArgs(1),
		Long: `Gives a client that was added by command a new secret and prints it. The previous secret
stops working immediately. To change over without an interruption, keep it with --keep-old, give the
application the new one, and end the old one with --end-old, which makes no new one.`,
		Example: `  caddy gatehouse client rotate-secret shop --keep-old
  caddy gatehouse client rotate-secret shop --end-old`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Client = args[0]
			var out adminapi.ClientCredentials
			if err := call(cmd, "/clients/secret", in, &out); err != nil {
				return err
			}
			done := args[0] + " has a new secret; the previous one has stopped working"
			switch {
			case in.End:
				done = args[0] + " has one secret; older ones have stopped working"
			case in.Keep:
				done = args[0] + " has a new secret; the previous one works until you run this command with --end-old"
			}
			return printCredentials(cmd, done, out)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&in.Keep, "keep-old", false, "The previous secret keeps working")
	f.BoolVar(&in.End, "end-old", false, "End every secret but the newest, and make none")
	cmd.MarkFlagsMutuallyExclusive("keep-old", "end-old")
	return cmd
}

func revokeClientCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke <id>", Short: "Ends every token, code and grant of a client, which can get new ones", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return do(cmd, "/clients/revoke", adminapi.ClientRequest{Client: args[0]}, "ended everything that "+args[0]+" was given")
		},
	}
}

func removeClientCommand() *cobra.Command {
	return yesFlag(&cobra.Command{
		Use: "remove <id>", Short: "Removes a client that was added by command, and ends its tokens", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := confirm(cmd, "Remove client "+args[0]+" and end its tokens?"); err != nil {
				return err
			}
			return do(cmd, "/clients/remove", adminapi.ClientRequest{Client: args[0]}, "removed client "+args[0])
		},
	})
}

package adminapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authzclient "github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// ClientCredentials is the answer of a client that was added or got a new secret: the only time that it is shown.
type ClientCredentials struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"`
	// Warnings say what is allowed and probably not meant.
	Warnings []string `json:"warnings,omitempty"`
}

func adminAddClient(i *Instance, r *http.Request, c client.Client) (any, error) {
	// A request holds no placeholders: they would read the server's own environment and files.
	res := caddyfileutil.NewVerbatimResolver()
	client := c.Resolve(res) // Add judges the whole, once it has a secret
	if err := res.Err(); err != nil {
		return nil, badRequest{err}
	}
	text, err := i.Authz.Clients().Add(r.Context(), *client, caller(r))
	if err != nil {
		return nil, err
	}
	added := ClientCredentials{ID: client.ID, Secret: text}
	for _, s := range caddyfileutil.Unknown(client.Scopes, i.Scopes) {
		added.Warnings = append(added.Warnings, fmt.Sprintf("the scope %q is not known: did you mean %q?", s.Name, s.Near))
	}
	return added, nil
}

// clientInfo is a client in the form of the configuration, without its secrets.
type clientInfo struct {
	client.Client

	// Whether it was added by command. The others are in the configuration.
	Stored bool `json:"stored"`
	// Where it comes from: configuration, command, console, document (at its id) or registration (by itself).
	Origin string `json:"origin"`
	// Where it stands in the Caddyfile, as file:line.
	Place string `json:"place,omitempty"`
	// What its access tokens are signed with, where they are JWTs.
	AccessTokenAlg string `json:"access_token_alg,omitempty"`
	// The ids of the keys that a file holds.
	KeyIDs    []string  `json:"key_ids,omitempty"`
	CreatedAt time.Time `json:"created_at,omitzero"` // of those added by command
}

// originConsole is the origin of a client that an administrator has added in the console.
const originConsole = "console"

func (i *Instance) clientInfo(c *clientstore.Info) clientInfo {
	out := clientInfo{Client: client.Of(&c.Client, i.Written(c.ID)), Stored: c.Stored, Origin: c.Origin, CreatedAt: c.CreatedAt}
	if c.Origin == clientstore.OriginCommand && c.By != callerID && c.By != "" {
		out.Origin = originConsole
	}
	if c.Origin == clientstore.OriginConfiguration {
		out.Place = i.PlaceOf("client " + c.ID)
	}
	if c.TokenFormat == "jwt" {
		out.AccessTokenAlg = c.AccessTokenAlg
	}
	if c.JWKS != nil {
		for _, key := range c.JWKS.Keys {
			out.KeyIDs = append(out.KeyIDs, key.KeyID)
		}
	}
	return out
}

// adminListClients answers all clients, or those whose id or name contains the parameter match.
func adminListClients(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	list, err := i.Authz.Clients().List(r.Context())
	if err != nil {
		return nil, err
	}
	match := strings.ToLower(r.URL.Query().Get("match"))
	out := make([]clientInfo, 0, len(list))
	for _, c := range list {
		if strings.Contains(strings.ToLower(c.ID+"\n"+c.Name), match) {
			out = append(out, i.clientInfo(&c))
		}
	}
	return out, nil
}

// adminShowClient answers the client that the parameter client names.
func adminShowClient(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	id := r.URL.Query().Get("client")
	list, err := i.Authz.Clients().List(r.Context())
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list, func(c clientstore.Info) bool { return c.ID == id })
	if at < 0 {
		return nil, i.aboutClient(r, id, clientstore.ErrUnknown)
	}
	return i.clientInfo(&list[at]), nil
}

// ClientMembers are the members of a client that `caddy gatehouse client set` changes, by their JSON names.
var ClientMembers = map[string]func(to, from *authzclient.Client){
	"name":                              func(to, from *authzclient.Client) { to.Name = from.Name },
	"redirect_uris":                     func(to, from *authzclient.Client) { to.RedirectURIs = from.RedirectURIs },
	"post_logout_redirect_uris":         func(to, from *authzclient.Client) { to.PostLogoutRedirectURIs = from.PostLogoutRedirectURIs },
	"grants":                            func(to, from *authzclient.Client) { to.Grants = from.Grants },
	"scopes":                            func(to, from *authzclient.Client) { to.Scopes = from.Scopes },
	"default_scopes":                    func(to, from *authzclient.Client) { to.DefaultScopes = from.DefaultScopes },
	"audiences":                         func(to, from *authzclient.Client) { to.Audiences = from.Audiences },
	"groups":                            func(to, from *authzclient.Client) { to.Groups = from.Groups },
	"idps":                              func(to, from *authzclient.Client) { to.IDPs = from.IDPs },
	"consent":                           func(to, from *authzclient.Client) { to.Consent = from.Consent },
	"auth_method":                       func(to, from *authzclient.Client) { to.AuthMethod = from.AuthMethod },
	"certificate_subject":               func(to, from *authzclient.Client) { to.CertificateSubject = from.CertificateSubject },
	"id_token_claims":                   func(to, from *authzclient.Client) { to.IDTokenClaims = from.IDTokenClaims },
	"password_only":                     func(to, from *authzclient.Client) { to.PasswordOnly = from.PasswordOnly },
	"second_factor":                     func(to, from *authzclient.Client) { to.SecondFactor = from.SecondFactor },
	"plan":                              func(to, from *authzclient.Client) { to.Plan = from.Plan },
	"contact":                           func(to, from *authzclient.Client) { to.Contact = from.Contact },
	"pkce_required":                     func(to, from *authzclient.Client) { to.PKCERequired = from.PKCERequired },
	"par_required":                      func(to, from *authzclient.Client) { to.PARRequired = from.PARRequired },
	"fapi2":                             func(to, from *authzclient.Client) { to.FAPI2 = from.FAPI2 },
	"mtls_required":                     func(to, from *authzclient.Client) { to.MTLSRequired = from.MTLSRequired },
	"native":                            func(to, from *authzclient.Client) { to.Native = from.Native },
	"dpop_required":                     func(to, from *authzclient.Client) { to.DPoPRequired = from.DPoPRequired },
	"authorization_details_types":       func(to, from *authzclient.Client) { to.DetailTypes = from.DetailTypes },
	"require_signed_request_object":     func(to, from *authzclient.Client) { to.SignedRequestRequired = from.SignedRequestRequired },
	"request_object_signing_alg":        func(to, from *authzclient.Client) { to.RequestAlg = from.RequestAlg },
	"authorization_signed_response_alg": func(to, from *authzclient.Client) { to.ResponseAlg = from.ResponseAlg },
	"disabled":                          func(to, from *authzclient.Client) { to.Disabled = from.Disabled },
}

// ClientChange names the members of Client that replace those of the stored client with its id.
type ClientChange struct {
	Client  client.Client `json:"client"`
	Members []string      `json:"members"`
}

func adminChangeClient(i *Instance, r *http.Request, in ClientChange) (any, error) {
	for _, name := range in.Members {
		if ClientMembers[name] == nil {
			return nil, badRequestf("the member %q of a client cannot be changed", name)
		}
	}
	res := caddyfileutil.NewVerbatimResolver()
	from := in.Client.Resolve(res)
	if err := res.Err(); err != nil {
		return nil, badRequest{err}
	}
	err := i.Authz.Clients().Change(r.Context(), in.Client.ID, strings.Join(in.Members, " "), caller(r), func(to *authzclient.Client) error {
		for _, name := range in.Members {
			ClientMembers[name](to, from)
		}
		return nil
	})
	return Outcome{"changed"}, i.aboutClient(r, in.Client.ID, inCaddyfile(in.Client.ID, err))
}

// ClientRequest names a client.
type ClientRequest struct {
	Client string `json:"client"`
	Keep   bool   `json:"keep,omitempty"` // the secret of before
	End    bool   `json:"end,omitempty"`  // every secret but the newest, without a new one
}

func adminReplaceSecret(i *Instance, r *http.Request, in ClientRequest) (any, error) {
	if in.End {
		err := i.Authz.Clients().EndOldSecrets(r.Context(), in.Client, caller(r))
		return ClientCredentials{ID: in.Client}, i.aboutClient(r, in.Client, inCaddyfile(in.Client, err))
	}
	text, err := i.Authz.Clients().ReplaceSecret(r.Context(), in.Client, in.Keep, "", caller(r))
	if err != nil {
		return nil, i.aboutClient(r, in.Client, inCaddyfile(in.Client, err))
	}
	return ClientCredentials{ID: in.Client, Secret: text}, nil
}

func adminRemoveClient(i *Instance, r *http.Request, in ClientRequest) (any, error) {
	return Outcome{"removed"}, i.aboutClient(r, in.Client, inCaddyfile(in.Client, i.Authz.Clients().Remove(r.Context(), in.Client, caller(r))))
}

func adminRevokeClient(i *Instance, r *http.Request, in ClientRequest) (any, error) {
	return Outcome{"revoked"}, i.aboutClient(r, in.Client, i.Authz.Clients().Revoke(r.Context(), in.Client, caller(r)))
}

// inCaddyfile says of a client that the Caddyfile declares where it is changed.
func inCaddyfile(id string, err error) error {
	if errors.Is(err, clientstore.ErrDeclared) {
		return fmt.Errorf("client %s is in the Caddyfile: change it there and reload (%w)", id, err)
	}
	return err
}

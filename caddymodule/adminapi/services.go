package adminapi

import (
	"context"
	"net/http"

	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/idp"
)

// ProviderInfo is an identity provider.
type ProviderInfo struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Protocol string   `json:"protocol"`          // saml, oidc or header
	Managed  bool     `json:"managed,omitempty"` // by the configuration API; the others are in the Caddyfile
	Disabled bool     `json:"disabled,omitempty"`
	Domains  []string `json:"domains,omitempty"`
	// Answer is ok, or what is wrong with what the provider names. Absent: it was not asked.
	Answer string `json:"answer,omitempty"`
	// Steps are the steps that were tried for the answer.
	Steps idp.Steps `json:"steps,omitempty"`
}

func newProviderInfo(p federation.Provider) ProviderInfo {
	out := ProviderInfo{ID: p.ID, Name: p.Name, Protocol: p.Path, Managed: p.Managed, Disabled: p.Disabled, Domains: p.Domains}
	if out.Name == "" {
		out.Name = p.ID
	}
	if out.Protocol == "" {
		out.Protocol = "header"
	}
	return out
}

func adminListProviders(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	list, _, err := i.Identity.Federation.Providers(r.Context())
	out := make([]ProviderInfo, 0, len(list))
	for _, p := range list {
		out = append(out, newProviderInfo(p))
	}
	return out, err
}

// adminTestProvider tries what a sign-in needs at the provider that the parameter idp names.
func adminTestProvider(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	id := r.URL.Query().Get("idp")
	list, _, err := i.Identity.Federation.Providers(r.Context())
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, p := range list {
		if ids = append(ids, p.ID); p.ID != id {
			continue
		}
		out := newProviderInfo(p)
		out.Answer, out.Steps = "ok", i.TestProvider(r.Context(), id)
		switch {
		case p.Disabled:
			out.Steps = nil
			out.Steps.Warn("state", "it is switched off, and signs no one in", "remove `disabled`")
		case len(out.Steps) == 0:
			out.Steps.OK("configuration", "it names nothing that could be asked")
		case out.Steps.Err() != nil:
			out.Answer = out.Steps.Err().Error()
		}
		return out, nil
	}
	return nil, &unknownError{"identity provider", id, closest(id, ids), errUnknownItem}
}

// trier sends a test message at once.
type trier interface {
	Try(ctx context.Context, to string) error
}

var errNoMail = badRequestf("no mail is configured: add `mail smtp …` to the global option gatehouse")

// mailRequest is the recipient of a test message.
type mailRequest struct {
	To string `json:"to"`
}

func adminTestMail(i *Instance, r *http.Request, in mailRequest) (any, error) {
	sender, ok := i.Mail.(trier)
	if !ok {
		return nil, errNoMail
	}
	ctx, cancel := context.WithTimeout(r.Context(), senderCheckTimeout)
	defer cancel()
	if err := sender.Try(ctx, in.To); err != nil {
		return nil, badRequest{err} // the administrator asks for the mail server's answer
	}
	return Outcome{"sent"}, nil
}

func adminListKeys(i *Instance, _ http.ResponseWriter, _ *http.Request) (any, error) {
	list := i.Authz.SigningKeys()
	if list == nil {
		list = []keys.Info{}
	}
	return list, nil
}

func adminRotateKeys(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	if err := i.Authz.RotateKeys(r.Context(), caller(r)); err != nil {
		return nil, err
	}
	return i.Authz.SigningKeys(), nil
}

// KeyRequest names a signing key.
type KeyRequest struct {
	KeyID string `json:"kid"`
}

func adminRetireKey(i *Instance, r *http.Request, in KeyRequest) (any, error) {
	if err := i.Authz.RetireKey(r.Context(), in.KeyID, caller(r)); err != nil {
		return nil, err
	}
	return i.Authz.SigningKeys(), nil
}

func adminRevokeEverything(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	return Outcome{"revoked"}, i.Authz.RevokeEverything(r.Context(), caller(r))
}

package authz

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Applications returns the clients with a remembered consent or a live grant of a person, sorted by name.
// WithdrawConsent takes both back. A removed or disabled client is listed as long as something of it is remembered.
func (s *Server) Applications(tx storage.Tx, person string, now time.Time) ([]authn.Application, error) {
	p, err := s.deps.Subjects.Get(tx, person)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	given, err := s.consentItems(tx, p, now)
	if err != nil {
		return nil, err
	}
	live, err := s.grantItems(tx, p, now)
	if err != nil {
		return nil, err
	}
	found := map[string]*authn.Application{}
	for i, h := range slices.Concat(given, live) {
		a := found[h.ClientID]
		if a == nil {
			if a, err = s.application(tx, h.ClientID, p.Groups); err != nil {
				return nil, err
			}
			a.Since, found[h.ClientID] = h.CreatedAt, a
		}
		if h.CreatedAt.Before(a.Since) {
			a.Since = h.CreatedAt
		}
		if i >= len(given) { // its tokens
			if h.CreatedAt.After(a.Last) {
				a.Last = h.CreatedAt
			}
			if h.ExpiresAt.After(a.Until) {
				a.Until = h.ExpiresAt
			}
		}
		for name := range strings.FieldsSeq(h.Scope) {
			if !slices.ContainsFunc(a.Scopes, func(sc authn.Scope) bool { return sc.Name == name }) {
				a.Scopes = append(a.Scopes, authn.Scope{Name: name, Description: s.clients.Scope(name).Description})
			}
		}
		for _, d := range s.clients.DescribeDetails(string(h.AuthorizationDetails)) {
			if !slices.ContainsFunc(a.Scopes, func(sc authn.Scope) bool { return sc.Name == d.Type }) {
				a.Scopes = append(a.Scopes, authn.Scope{Name: d.Type, Description: d.Title[""]})
			}
		}
	}
	out := make([]authn.Application, 0, len(found))
	for _, a := range found {
		out = append(out, *a)
	}
	slices.SortFunc(out, func(a, b authn.Application) int {
		return cmp.Or(strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), strings.Compare(a.ID, b.ID))
	})
	return out, nil
}

// application returns what is shown of a client to someone of these groups; its id is the name of one that was removed.
func (s *Server) application(tx storage.Tx, id string, groups []string) (*authn.Application, error) {
	a := &authn.Application{ID: id, Name: id}
	c, found, err := s.clients.Find(tx, id)
	if err != nil {
		return nil, err
	}
	if !found {
		return a, nil
	}
	a.Name = cmp.Or(c.Name, id)
	if len(c.RedirectURIs) > 0 {
		a.Owner = client.RedirectOwner(c.RedirectURIs[0])
	}
	if c.InitiateLoginURI != "" && !c.Disabled && c.Admits(groups) { // OpenID Connect Core 4
		a.Start = client.WithQuery(c.InitiateLoginURI, url.Values{"iss": {s.cfg.Issuer}})
	}
	return a, nil
}

// ApplicationName returns what people call a client, or its id.
func (s *Server) ApplicationName(tx storage.Tx, id string) (string, error) {
	a, err := s.application(tx, id, nil)
	if err != nil {
		return "", err
	}
	return a.Name, nil
}

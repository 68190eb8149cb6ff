package authz

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/cimd"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/consent"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Clients that no one has registered: their id is the address of a metadata document, by which a person decides. (docs/
// decisions/client-authentication.md#client-metadata-documents)

var errDocumentChanged = denial.New(denial.ClientDocument, "the metadata document of the client has changed since the request began")

// asking lets the metadata document of a client be fetched for a request.
func (s *Server) asking(r *http.Request) *http.Request {
	if !s.clients.Documents() {
		return r
	}
	return r.WithContext(cimd.Asking(r.Context(), s.deps.Origin(r).ClientIP, false))
}

// printOf changes with what a person sees of a client with a metadata document. Empty: it has none.
func printOf(c *client.Client) string {
	if c.Document == nil {
		return ""
	}
	return c.Document.Print
}

// use returns the permission of a client besides scopes: for which resources. If no one has registered it, also to
// which application, and by which way. Empty: nothing besides.
func (p *pendingRequest) use() string {
	if p.client.Document == nil {
		return consent.ForResources(p.rec.Resources)
	}
	resources := slices.Sorted(slices.Values(p.rec.Resources))
	return secret.Hash(strings.Join(append([]string{p.client.Document.Print, targetOf(p.rec.RedirectURI)}, resources...), "\n"))
}

// wish returns the consent that the person is asked for.
func (p *pendingRequest) wish() consent.Wish {
	return consent.Wish{Use: p.use(), Scope: p.agreed(), Details: p.rec.AuthorizationDetails}
}

// targetOf returns the target of a redirect URI, without the port of a loopback host, which is another one each time.
func targetOf(uri string) string {
	target := client.RedirectTarget(uri)
	if every, loopback := client.AnyPort(target); loopback {
		return every
	}
	return target
}

// unregistered returns the notice of the consent page about such a client. nil: the client is registered.
func (s *Server) unregistered(p *pendingRequest) *web.Unregistered {
	if p.client.Document == nil {
		return nil
	}
	out := &web.Unregistered{Name: p.client.Name, Verified: p.client.Document.Trusted}
	switch _, loopback := client.AnyPort(client.RedirectTarget(p.rec.RedirectURI)); {
	case loopback:
		out.Program = true
	case isWeb(p.rec.RedirectURI):
		out.Host = client.RedirectOwner(p.rec.RedirectURI)
	default:
		out.Scheme, _, _ = strings.Cut(client.RedirectTarget(p.rec.RedirectURI), ":")
	}
	for _, uri := range p.rec.Resources {
		name := ""
		for _, known := range s.cfg.Resources {
			if known.URI == uri {
				name = known.Name
			}
		}
		out.Resources = append(out.Resources, web.Resource{Name: name, Address: uri})
	}
	return out
}

// isWeb reports whether a redirect URI leads to another machine, however its scheme is written. Others lead to a
// program on this one.
func isWeb(redirectURI string) bool {
	return strings.HasPrefix(client.RedirectTarget(redirectURI), "https://")
}

// trustsRedirect reports whether a browser can be sent to a redirect URI with an error of which the person knows
// nothing: an operator has named the client or the host, the person has allowed the client something before, or a
// program on their machine waits for the answer. Otherwise a stranger could use our address to lead people anywhere,
// and learn whether they are signed in. (RFC 9700 4.11.2;
// docs/decisions/authorization.md#errors-of-unregistered-clients)
func (s *Server) trustsRedirect(r *http.Request, c *client.Client, redirectURI string) bool {
	if !c.IsStranger() || c.Document.Trusted || !isWeb(redirectURI) || s.registered.Names(redirectURI) {
		return true
	}
	current, err := s.deps.Auth.Current(r)
	if err != nil || current == nil {
		return false
	}
	allowed := false
	err = s.view(r.Context(), func(tx storage.Tx) (err error) {
		allowed, err = consent.Has(tx, current.Subject, c.ID)
		return err
	})
	return err == nil && allowed
}

// hasDecided reports whether an error is the answer of the person, on a page that names the client.
func hasDecided(err error) bool {
	return errors.Is(err, oauth.ErrDenied) || errors.Is(err, oauth.ErrGivenUp)
}

// failOnward shows an error on a page, with a way to the client that takes the answer along.
func (s *Server) failOnward(w http.ResponseWriter, r *http.Request, c *client.Client, rec *requestRecord, answer url.Values, cause error) {
	address, fields, err := s.answerAt(c, rec, answer)
	if err != nil {
		s.failPage(w, r, err, "", "")
		return
	}
	s.failWith(w, r, cause, web.Failure{
		Key: "error.unregistered", Onward: web.Onward{Host: client.RedirectOwner(rec.RedirectURI), Address: address, Fields: fields},
	})
}

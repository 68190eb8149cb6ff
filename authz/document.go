package authz

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/cimd"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/consent"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
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
	case strings.HasPrefix(p.rec.RedirectURI, "https://"):
		out.Host = client.RedirectOwner(p.rec.RedirectURI)
	default:
		out.Scheme, _, _ = strings.Cut(p.rec.RedirectURI, ":")
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

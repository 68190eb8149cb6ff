package federation

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// DomainPath is the path at which Apple looks for the file that proves a domain.
const DomainPath = "/.well-known/apple-developer-domain-association.txt"

// showDomain serves GET /.well-known/apple-developer-domain-association.txt: the file of the first login method at
// Apple that has one. It is served for a method that is off, too, because Apple wants it before people can sign in.
func (s *Service) showDomain(q *webflow.Request) error {
	for i := range q.Settings.LoginMethods.LoginMethods {
		a := q.Settings.LoginMethods.LoginMethods[i].Apple
		if a == nil || a.DomainVerificationFileContent == "" {
			continue
		}
		h := q.W.Header()
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		if q.Method != http.MethodHead {
			_, _ = q.W.Write([]byte(a.DomainVerificationFileContent)) // the client may be gone
		}
		return nil
	}
	return webflow.NotFound()
}

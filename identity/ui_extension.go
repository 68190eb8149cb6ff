package identity

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// hereParam marks an address of the sign-in page that leads to no page elsewhere: whoever comes with it has been there.
const hereParam = "here"

// hereURL is front.FlowURL for answers to forms: a browser would not follow them to another origin, since the policy of the form's page forbids it.
func hereURL(id string) string { return front.FlowURL(id) + "&" + hereParam + "=1" }

// loginElsewhere returns where a person is sent before they see the sign-in page, or "". (identity service document, "UIExtensionConfiguration")
// The parameter return of that address is the sign-in page of this flow, to which the page there sends them on; client_id is who asks, language
// what the flow is to be shown in. The name of the flow opens nothing in another browser.
func (s *Service) loginElsewhere(u *config.Units, r *http.Request, id string, f front.FlowRecord) string {
	x := u.UIExtension
	if asked := r.URL.Query(); !x.EnableLoginRedirect || asked.Has(hereParam) || asked.Has("choose") || asked.Has("other") {
		return ""
	}
	to, err := url.Parse(strings.TrimSuffix(x.BaseURL, "/") + x.LoginPath)
	if err != nil || to.Host == "" || (to.Scheme+"://"+to.Host == s.issuer && s.serves(to.Path)) { // a page of ours would lead here again
		return ""
	}
	q := to.Query()
	q.Set("return", s.issuer+hereURL(id))
	if f.Demand.Client.ID != "" {
		q.Set("client_id", f.Demand.Client.ID)
	}
	if len(f.Demand.Locales) > 0 && page.CheckLocale(f.Demand.Locales[0]) == nil {
		q.Set("language", f.Demand.Locales[0])
	}
	to.RawQuery = q.Encode()
	return to.String()
}

// serves tells whether ServeHTTP answers the path.
func (s *Service) serves(path string) bool {
	for _, p := range s.Paths() {
		if path == p || strings.HasPrefix(path, strings.TrimSuffix(p, "/")+"/") {
			return true
		}
	}
	return false
}

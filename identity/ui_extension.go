package identity

import (
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// hereParam marks an address of the sign-in page that shows our page: the browser has been at the page elsewhere.
const hereParam = "here"

// hereURL is webflow.FlowURL for answers to forms: a browser would not follow them to another origin, since the policy
// of the form's page forbids it.
func hereURL(id string) string { return webflow.FlowURL(id) + "&" + hereParam + "=1" }

// externalSignIn returns the page elsewhere that shows the sign-in in place of our own page, or nil. (identity service
// document, "UIExtensionConfiguration") Its parameter return is our sign-in page of this flow, to which that page
// redirects; client_id is the application that asks, language the language of the flow. The id of the flow gives no
// access in another browser.
func (s *Service) externalSignIn(x *signIn) *url.URL {
	ui, f := x.Settings.UIExtension, x.flow
	if params := x.URL.Query(); !ui.EnableLoginRedirect || params.Has(hereParam) || params.Has("choose") || params.Has("other") {
		return nil
	}
	to, err := url.Parse(strings.TrimSuffix(ui.BaseURL, "/") + ui.LoginPath)
	if err != nil || to.Host == "" ||
		(to.Scheme+"://"+to.Host == s.issuer && s.serves(to.Path)) { // one of our pages would redirect here again
		return nil
	}
	q := to.Query()
	q.Set("return", s.issuer+hereURL(x.id))
	if f.Demand.Client.ID != "" {
		q.Set("client_id", f.Demand.Client.ID)
	}
	if len(f.Demand.Locales) > 0 && web.CheckLocale(f.Demand.Locales[0]) == nil {
		q.Set("language", f.Demand.Locales[0])
	}
	to.RawQuery = q.Encode()
	return to
}

// serves reports whether ServeHTTP answers the path.
func (s *Service) serves(path string) bool {
	for _, p := range s.Paths() {
		if path == p || strings.HasPrefix(path, strings.TrimSuffix(p, "/")+"/") {
			return true
		}
	}
	return false
}

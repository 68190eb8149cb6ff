package authz

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// The response modes. (OAuth 2.0 Multiple Response Type Encoding Practices 2.1; OAuth 2.0 Form Post Response Mode 2)
const (
	modeQuery    = "query"
	modeFragment = "fragment"
	modeFormPost = "form_post"
	// modeJWT, or one of the others followed by a dot and it: the answer is signed. (JWT Secured Authorization Response
	// Mode 2.3)
	modeJWT = "jwt"
)

// responseModes are those served, for the metadata.
var responseModes = []string{modeQuery, modeFragment, modeFormPost, "query.jwt", "fragment.jwt", "form_post.jwt", modeJWT}

// responseMode returns how the answer travels, errors included: the requested mode if it is safe, otherwise the default
// of the response type ("": the query). An access token travels only in the fragment, which servers and logs do not
// see, an ID token there or in a form.
func responseMode(a *authorizeRequest) string {
	asked := a.form.Get("response_mode")
	if asked == modeJWT {
		return cmp.Or(plainMode(a, ""), modeQuery) + "." + modeJWT
	}
	if mode, signed := strings.CutSuffix(asked, "."+modeJWT); signed {
		if plain := plainMode(a, mode); plain == mode && mode != "" {
			return asked
		}
		asked = ""
	}
	return plainMode(a, asked)
}

// plainMode is responseMode for an answer that is not signed.
func plainMode(a *authorizeRequest, mode string) string {
	kind := a.form.Get("response_type")
	if mode == modeFormPost && !web.IsFormTarget(a.rec.RedirectURI) { // an application's private scheme takes no form
		mode = ""
	}
	switch {
	case kind == responseToken, kind == responseIDToken && mode != modeFormPost:
		return modeFragment
	case mode == modeQuery, mode == modeFragment, mode == modeFormPost:
		return mode
	}
	return ""
}

// redirectClient sends the answer of a request to the client.
func (s *Server) redirectClient(w http.ResponseWriter, r *http.Request, c *client.Client, rec *requestRecord,
	params url.Values, status int,
) {
	address, fields, err := s.answerAt(c, rec, params)
	switch {
	case err != nil:
		s.failPage(w, r, err, "", "")
	case fields != nil:
		s.postClient(w, r, rec, fields)
	default:
		web.RedirectStatus(w, address, status)
	}
}

// answerAt returns the address that takes an answer to the client, with iss and state. If that travels in a form, it
// also returns the fields.
func (s *Server) answerAt(c *client.Client, rec *requestRecord, params url.Values) (address string, fields []web.Hidden, err error) {
	params.Set("iss", s.cfg.Issuer) // RFC 9207 2
	if rec.State != "" {
		params.Set("state", rec.State) // RFC 6749 4.1.2: the exact value received
	}
	mode, signed := strings.CutSuffix(rec.ResponseMode, "."+modeJWT)
	if signed {
		response, err := s.envelopes.Response(c, params)
		if err != nil {
			return "", nil, oauth.ServerError(err)
		}
		params = url.Values{"response": {response}}
	}
	switch mode {
	case modeFragment:
		// A redirect URI has no fragment of its own (RFC 6749 3.1.2)
		return rec.RedirectURI + "#" + params.Encode(), nil, nil
	case modeFormPost:
		for _, name := range slices.Sorted(maps.Keys(params)) {
			fields = append(fields, web.Hidden{Name: name, Value: params.Get(name)})
		}
		return rec.RedirectURI, fields, nil
	}
	return client.WithQuery(rec.RedirectURI, params), nil, nil
}

// postClient answers with a page whose form goes to the client.
func (s *Server) postClient(w http.ResponseWriter, r *http.Request, rec *requestRecord, fields []web.Hidden) {
	data := web.FormPost{Action: rec.RedirectURI, Fields: fields}
	view := web.View{Template: "form_post", Locales: rec.Locales, Mobile: rec.View == "mobile", Data: data}
	view.Client.Name = client.RedirectOwner(rec.RedirectURI)
	s.deps.Pages.Render(w, r, view)
}

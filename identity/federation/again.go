package federation

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// fieldAgain marks an answer that one of our pages has posted.
const fieldAgain = "gatehouse_again"

// postAgain has the browser post the answer of a flow once more, from one of our pages, and reports whether it has.
// Without https the cookie that a flow is bound to is not sent along with what another site posts. Nothing is trusted
// meanwhile: the second request is the same one with its cookies.
func (s *Service) postAgain(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost || r.Header.Get("Sec-Fetch-Site") != "cross-site" || s.deps.Jar.CrossesSites() ||
		s.deps.Jar.Get(r, kindTracker) != "" || r.PostForm.Has(fieldAgain) {
		return false
	}
	form := &idp.Form{Action: s.deps.Issuer + r.URL.Path, Fields: []idp.Field{{Name: fieldAgain, Value: "1"}}}
	for _, name := range slices.Sorted(maps.Keys(r.PostForm)) {
		for _, value := range r.PostForm[name] {
			form.Fields = append(form.Fields, idp.Field{Name: name, Value: value})
		}
	}
	s.send(w, r, nil, &idp.Next{Form: form})
	return true
}

// redirect redirects to one of our paths. After our own form a page does that instead, since browsers apply its
// form-action to every redirect that follows, and these end at other origins.
func (s *Service) redirect(q *webflow.Request, name, to string) error {
	if !q.PostForm.Has(fieldAgain) {
		return q.Redirect(to)
	}
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "forward", Data: web.Forward{Name: cmp.Or(name, q.Host), To: to}})
	return nil
}

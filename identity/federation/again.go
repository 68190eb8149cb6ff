package federation

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// fieldAgain is in an answer that a page of ours has posted.
const fieldAgain = "gatehouse_again"

// postAgain has the browser post the answer of a flow once more, from a page of ours, and tells whether it has. Without https the cookie that a flow
// is bound to does not come along with what another site posts. Nothing is believed meanwhile: it is the same request with its cookies.
func (s *Service) postAgain(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost || r.Header.Get("Sec-Fetch-Site") != "cross-site" || s.jar.CrossesSites() || s.jar.Get(r, kindTracker) != "" || r.PostForm.Has(fieldAgain) {
		return false
	}
	form := &idp.Form{Action: s.issuer + r.URL.Path, Fields: []idp.Field{{Name: fieldAgain, Value: "1"}}}
	for _, name := range slices.Sorted(maps.Keys(r.PostForm)) {
		for _, value := range r.PostForm[name] {
			form.Fields = append(form.Fields, idp.Field{Name: name, Value: value})
		}
	}
	s.sendTo(w, r, nil, &idp.Next{Form: form})
	return true
}

// onward redirects to a path of ours. After our own form a page goes there instead, since browsers apply its form-action to every redirect that
// follows, and these lead to other origins in the end.
func (s *Service) onward(w http.ResponseWriter, r *http.Request, name, to string) {
	if !r.PostForm.Has(fieldAgain) {
		s.front.Redirect(w, r, to)
		return
	}
	s.pages.Render(w, r, page.View{Template: "forward", Data: page.Forward{Name: cmp.Or(name, r.Host), To: to}})
}

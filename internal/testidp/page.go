package main

import (
	"html/template"
	"net/http"
	"net/url"
	"slices"

	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// person is a person who can be chosen at a provider.
type person struct {
	id, name string
	be       func()
}

// desk is the page in front of a provider.
type desk struct {
	id, name string
	people   *people
	choice   []person
	// refusal is the answer for a person who has gone back, as the provider writes it. Its form is posted if post is set.
	refusal url.Values
	post    bool
}

var deskPage = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><meta name="viewport" content="width=device-width"><title>{{.Name}}</title>
<h1>{{.Name}}</h1>
<form method="post">
<p><label>Account <select id="person" name="person">{{range .Choice}}<option value="{{.ID}}">{{.Name}}</option>{{end}}</select></label></p>
<p><button id="allow" name="do" value="allow">Continue</button> <button id="cancel" name="do" value="cancel">Cancel</button></p>
</form>
</html>
`))

// before puts the page before the authorization endpoint of a provider.
func (d *desk) before(provider http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r.URL.Query()
		switch {
		case !asked.Has("response_type"):
			provider.ServeHTTP(w, r)
		case asked.Get("redirect_uri") != d.people.origin()+"/oidc/"+d.id+"/callback":
			http.Error(w, "redirect_uri_mismatch", http.StatusBadRequest)
		case r.Method != http.MethodPost:
			type option struct{ ID, Name string }
			var choice []option
			for _, p := range d.choice {
				choice = append(choice, option{p.id, p.name})
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_ = deskPage.Execute(w, map[string]any{"Name": d.name, "Choice": choice}) // the browser may be gone
		case r.PostFormValue("do") == "cancel":
			d.refuse(w, r, asked)
		default:
			i := slices.IndexFunc(d.choice, func(p person) bool { return p.id == r.PostFormValue("person") })
			if i < 0 {
				http.Error(w, "nobody has that name", http.StatusBadRequest)
				return
			}
			d.choice[i].be()
			ask := r.Clone(r.Context())
			ask.Method, ask.Body, ask.Form, ask.PostForm = http.MethodGet, http.NoBody, nil, nil
			provider.ServeHTTP(w, ask)
		}
	})
}

// refuse sends the person back with the error of the provider.
func (d *desk) refuse(w http.ResponseWriter, r *http.Request, asked url.Values) {
	answer := url.Values{"state": {asked.Get("state")}}
	for name, values := range d.refusal {
		answer[name] = values
	}
	if !d.post {
		http.Redirect(w, r, asked.Get("redirect_uri")+"?"+answer.Encode(), http.StatusSeeOther)
		return
	}
	fields := map[string]string{}
	for name := range answer {
		fields[name] = answer.Get(name)
	}
	samltest.WriteForm(w, asked.Get("redirect_uri"), fields)
}

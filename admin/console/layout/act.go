package layout

import (
	"cmp"
	"io"
	"net/http"
	"net/url"

	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// admitAct is admit for an act: the sign-in is young, and the rights reach.
func (f *Frame) admitAct(q *webflow.Request, s *Screen, a *Act) (*Visit, error) {
	v, err := f.admit(q, s, max(s.Role, a.Role), true)
	if err == nil {
		v.act = a
		err = v.May(a)
	}
	return v, err
}

// showAct serves the GET of an act: what would happen, and the form that does it.
func (f *Frame) showAct(s *Screen, a *Act) webflow.Handler {
	return func(q *webflow.Request) error {
		v, err := f.admitAct(q, s, a)
		if err != nil {
			return err
		}
		return f.renderAct(v, a, http.StatusOK, nil, nil)
	}
}

// handleAct serves the POST of an act.
func (f *Frame) handleAct(s *Screen, a *Act) webflow.Handler {
	return func(q *webflow.Request) error {
		v, err := f.admitAct(q, s, a)
		if err != nil {
			return err
		}
		if a.Upload > 0 {
			v.Upload, err = f.Identity.Front.CheckUpload(q, f.form(v, a), v.Path(), a.Upload)
		} else {
			err = f.Identity.Front.CheckForm(q, f.form(v, a), v.Path())
		}
		if err != nil {
			return err
		}
		done := Result{}
		if err = f.checkUndo(v, q.PostForm); err == nil {
			done, err = a.Do(v, q.PostForm)
		}
		if wrong := ProblemOf(err); wrong != nil {
			return f.renderAct(v, a, http.StatusUnprocessableEntity, q.PostForm, wrong)
		}
		if err != nil {
			return err
		}
		if f.Acted != nil {
			f.Acted()
		}
		switch {
		case done.Page != nil:
			return f.render(v, http.StatusOK, done.Page)
		case done.Ask != nil:
			return f.renderQuestion(v, a, *done.Ask, http.StatusOK, q.PostForm, nil)
		case done.File != nil:
			return done.File.send(q.W)
		}
		if err := f.keepUndo(v, done.Undo); err != nil {
			return err
		}
		to := cmp.Or(done.To, v.Path())
		if web.LocalPath(to) == "" { // the id of the application is an address itself
			to = Root
		}
		return q.Redirect(to + "?" + url.Values{"done": {a.Name}}.Encode())
	}
}

// form names the form of an act: it is of one session, one act and one object.
func (f *Frame) form(v *Visit, a *Act) string {
	return webflow.SessionForm("console "+v.Path()+" "+a.Name, v.SignIn)
}

// renderAct writes the page of an act. in is what was entered, wrong what is wrong with it.
func (f *Frame) renderAct(v *Visit, a *Act, status int, in url.Values, wrong *Problem) (err error) {
	var ask Question
	if a.Ask != nil {
		if ask, err = a.Ask(v); err != nil {
			return err
		}
	}
	return f.renderQuestion(v, a, ask, status, in, wrong)
}

// renderQuestion is renderAct for what the act has asked already.
func (f *Frame) renderQuestion(v *Visit, a *Act, ask Question, status int, in url.Values, wrong *Problem) (err error) {
	key := "console.act." + a.Name
	out := &web.Console{Title: web.Say(key + ".title"), Up: v.Up(), Lead: web.Say(key+".text", append(ask.Fill, "name", v.Called)...)}
	if ask.Name != "" {
		out.Title, out.Name = web.Text{}, ask.Name
	}
	if ask.Off != nil {
		out.Lead, out.Parts = web.Text{}, []web.ConsolePart{{Empty: ask.Off}}
		return f.render(v, status, out)
	}
	for i := range ask.Fields {
		f := &ask.Fields[i]
		f.Label = cmp.Or(f.Label, "console.field."+f.Name)
		if in != nil && (f.Type == "checkbox" || in.Has(f.Name)) {
			f.Value, f.Checked = in.Get(f.Name), f.Type == "checkbox" && in.Has(f.Name)
			if f.Type == "checkbox" || f.Type == "password" { // a password is in no page
				f.Value = ""
			}
		}
	}
	if wrong != nil && wrong.Field != "" {
		if f := web.FieldNamed(wrong.Field, ask.Fields); f != nil {
			f.Problem, f.ProblemFill, f.Focus = wrong.Key, wrong.Fill, true
			wrong = nil
		}
	}
	if wrong != nil {
		out.Problem = web.Say(wrong.Key, wrong.Fill...)
	}
	form := &web.ConsoleForm{
		Action: v.Path() + "/" + a.Name, Submit: cmp.Or(ask.Submit, key), Cancel: v.Path(), Hidden: ask.Hidden, Danger: a.Danger && !ask.Looks,
		Fields: web.Fields(wrong != nil, ask.Fields...),
	}
	stayOnTop(form.Fields)
	if form.CSRF, err = f.Identity.Front.FormToken(v.Request, f.form(v, a)); err != nil {
		return err
	}
	out.Parts = []web.ConsolePart{{Facts: ask.Facts, Form: form}}
	if len(ask.Parts) > 0 {
		out.Parts = append(ask.Parts, web.ConsolePart{Form: form})
		if len(ask.Facts) > 0 {
			out.Parts = append([]web.ConsolePart{{Facts: ask.Facts}}, out.Parts...)
		}
	}
	return f.render(v, status, out)
}

// stayOnTop takes the focus off a field below others that are filled in, since a browser would scroll to it: what is
// there already is read first. A field with a problem keeps it.
func stayOnTop(fields []web.Field) {
	filled := false
	for i := range fields {
		f := &fields[i]
		if f.Focus && filled && f.Problem == "" && !f.Invalid {
			f.Focus = false
		}
		filled = filled || f.Value != "" && f.Type != "select"
	}
}

// Buttons are the acts of the screen that the person of the visit can do now.
func (v *Visit) Buttons() (out []web.Action) {
	for _, a := range v.Screen.Acts {
		if !a.Hidden && v.offers(a) {
			out = append(out, web.Action{Label: "console.act." + a.Name, URL: v.Path() + "/" + a.Name, Danger: a.Danger, Quiet: a.Quiet})
		}
	}
	return out
}

// offers reports whether the person of the visit can do something, and there is something to do.
func (v *Visit) offers(a *Act) bool {
	return v.May(a) == nil && (a.When == nil || a.When(v))
}

// Link is a cell with a link to an act on one part of what the screen is about. It is empty for someone who may not.
func (v *Visit) Link(name, param, value string) web.Cell {
	if !v.offers(v.Screen.Act(name)) {
		return web.Cell{}
	}
	return web.Cell{Text: web.Say("console.act." + name), URL: v.Path() + "/" + name + "?" + url.Values{param: {value}}.Encode()}
}

// Button is Link for an act that can be undone: one click sends the form of ButtonForm. Someone whose sign-in is too
// old comes to the page of the act instead.
func (v *Visit) Button(name, param, value string) web.Cell {
	cell := v.Link(name, param, value)
	cell.Button = cell.URL != ""
	return cell
}

// ButtonForm is the form of the buttons of an act, with what they have in common. nil: there are none
func (v *Visit) ButtonForm(name string, hidden ...web.Hidden) (*web.ConsoleForm, error) {
	a := v.Screen.Act(name)
	if !v.offers(a) {
		return nil, nil //nolint:nilnil // who may not do it sees no buttons
	}
	token, err := v.frame.Identity.Front.FormToken(v.Request, v.frame.form(v, a))
	return &web.ConsoleForm{Action: v.Path() + "/" + name, CSRF: token, Hidden: hidden}, err
}

// Chosen asks for a part of what the screen is about: the parameter names it, and the form sends it along, or a button
// in its address.
func (v *Visit) Chosen(param string) (string, []web.Hidden) {
	value := v.URL.Query().Get(param)
	if v.Method == http.MethodPost && v.PostForm.Has(param) {
		value = v.PostForm.Get(param)
	}
	return value, []web.Hidden{{Name: param, Value: value}}
}

// Up leads from the page of an act to its screen.
func (v *Visit) Up() *web.Up {
	if v.Words.Key != "" {
		return &web.Up{Label: v.Words, URL: v.Path()}
	}
	if name := v.Called; name != "" {
		return &web.Up{Name: name, URL: v.Path()}
	}
	return &web.Up{Label: web.Say("console." + v.Screen.Name + ".title"), URL: v.Path()}
}

// send writes the file as it is made.
func (f *File) send(w http.ResponseWriter) error {
	webflow.Attach(w.Header(), f.Name, f.Type)
	out := &begun{Writer: w}
	err := f.Write(out)
	if err != nil && out.yes {
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		w.Header().Del("Content-Disposition")
	}
	return err
}

// begun knows whether anything was written.
type begun struct {
	io.Writer

	yes bool
}

// Write implements io.Writer.
func (b *begun) Write(p []byte) (int, error) {
	b.yes = true
	return b.Writer.Write(p)
}

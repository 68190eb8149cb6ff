package enrol

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	registerPath     = "/sign-in/register"
	registerCodePath = registerPath + "/confirm"
)

func RegisterURL(flow string) string { return registerPath + "?" + url.Values{"flow": {flow}}.Encode() }

func registerCodeURL(flow string) string {
	return registerCodePath + "?" + url.Values{"flow": {flow}}.Encode()
}

// AskFirst says of somebody whom a provider has named, should they be new, what they are asked before there is a person. A password that would sign
// nobody in is not asked for.
func (s *Service) AskFirst(ctx context.Context, a *federation.Answer, n *federation.Newcomer) error {
	u, err := s.person.Settings(ctx)
	if err != nil {
		return err
	}
	named, fields := u.Registration(a.Provider.ID)
	n.Named = named && !a.Known.NoPassword
	n.Asked = n.Named || len(fields) > 0
	return nil
}

// registration is somebody whom a provider has named and who is about to become a person. Until then there is nothing but the verified answer of the
// provider, bound to this browser, which makes one person at most.
type registration struct {
	*federation.Answer

	u      *config.Units
	says   person.NewPerson // what the provider says
	named  bool             // they choose a username and a password
	fields person.CustomFields
	typed  typedSignUp
	again  bool              // something was typed before
	sent   proof.CodePurpose // what a code was sent for then
}

// fixed tells whether a part of the profile is as the provider says, now and at each sign-in.
func (x *registration) fixed(part, says string) bool { return says != "" && x.Provider.Writes(part) }

// keepsEmail tells whether the address is the provider's, which says that it is the person's own.
func (x *registration) keepsEmail() bool {
	return *x.says.EmailVerified && isSignUpAddress(x.says.Email) && x.u.Features.CustomEmailValidation.Check(x.says.Email)
}

const registerPurpose = "registration"

// readRegistering reads who is registering. Otherwise it has written the answer and is not ok.
func (s *Service) readRegistering(w http.ResponseWriter, r *http.Request) (x *registration, ok bool) {
	a, ok := s.federation.ReadAnswered(w, r)
	if !ok {
		return nil, false
	}
	if a.SignIn == "" || a.Flow.Invited != "" || a.Flow.Couple != "" || a.Flow.Demand.Passive { // see askAgain
		s.pages.Error(w, r, http.StatusBadRequest, "error.expired", "/account")
		return nil, false
	}
	u, err := s.person.Settings(r.Context())
	if err == nil {
		err = s.front.IsOpen(r.Context())
	}
	if err != nil {
		s.front.Fail(w, r, err, "")
		return nil, false
	}
	x = &registration{Answer: a, u: u, says: federation.PersonFrom(a.Identity)}
	var fields []config.CustomAttributeField
	x.named, fields = u.Registration(a.Provider.ID)
	x.named, x.fields = x.named && !a.Known.NoPassword, fields
	if !x.named && len(fields) == 0 { // switched off meanwhile
		s.front.Redirect(w, r, a.Done())
		return nil, false
	}
	if len(a.Rec.Typed) > 0 {
		raw, err := s.federation.Unseal(registerPurpose, secret.Hash(a.Name), a.Rec.Typed)
		if err == nil {
			err = cbor.Unmarshal(raw, &x.typed)
		}
		if err != nil {
			s.front.Fail(w, r, err, "")
			return nil, false
		}
		x.again, x.sent = true, x.pending().code(x.confirms(s))
	}
	return x, true
}

// showRegister serves GET /sign-in/register?flow=…: somebody whom a provider has named for the first time makes an account.
func (s *Service) showRegister(w http.ResponseWriter, r *http.Request) {
	x, ok := s.readRegistering(w, r)
	if !ok {
		return
	}
	t := &x.typed
	if x.again {
		t.emailAgain, t.phoneAgain = t.Email, t.Phone
	} else {
		t.Email, t.GivenName, t.FamilyName = x.says.Email, x.says.GivenName, x.says.FamilyName
		// An identifier of the provider is no name that anybody would choose.
		if t.Username = cmp.Or(x.Identity.Username, t.Email); usernameProblem(t.Username, t.Email) != "" {
			t.Username = ""
		}
	}
	s.registerPage(w, r, x, http.StatusOK, page.Form{})
}

func (s *Service) registerPage(w http.ResponseWriter, r *http.Request, x *registration, status int, in page.Form) {
	in.Key, in.Fill, in.Action = "register", []any{"provider", x.Provider.Name}, RegisterURL(x.Name)
	if !x.named {
		in.Key = "register_more"
	}
	in.Fields = page.Fields(in.Problem != "", x.inputs()...)
	if !x.Known.NoPassword {
		in.Links = []page.FormLink{{Label: "register.known", URL: federation.ConnectURL(x.Name)}}
	}
	in.Cancel = page.LocalPath(x.Flow.Demand.Cancel)
	s.front.FormPage(w, r, x.aside(), x.form(), status, in)
}

func (x *registration) aside() front.Detour { return front.Detour{ID: x.SignIn, Flow: x.Flow, U: x.u} }

// form binds the form to the identity that it makes a person of.
func (x *registration) form() string { return "register:" + x.Name + ":" + x.Key() }

// inputs are the fields of the page.
func (x *registration) inputs() (list []page.Field) {
	t := &x.typed
	person := signUpPerson(x.u, t)
	for i := range person {
		f := &person[i]
		f.ReadOnly = f.Name == "given_name" && x.fixed(f.Name, x.says.GivenName) || f.Name == "family_name" && x.fixed(f.Name, x.says.FamilyName)
	}
	if !x.named {
		return append(person, front.CustomInputs(x.fields, t.Custom, t.problems)...)
	}
	username := t.field("username", "text", t.Username, "username")
	if username.Label = "register.username"; username.Problem == "" {
		username.Hint = "register.username.hint"
	}
	list = append(list, username)
	if x.keepsEmail() {
		email := t.field("email", "email", x.says.Email, "email")
		email.ReadOnly = true
		list = append(list, email)
	} else {
		list = append(list, signUpEmail(x.u, t)...)
	}
	list = append(append(list, person...), front.CustomInputs(x.fields, t.Custom, t.problems)...)
	password := front.NewPasswordField(&x.u.PasswordPolicy, t.problems["password"])
	password.Label = "sign_in.password"
	return append(list, password)
}

// readRegister reads the form and says what is wrong with each field. The password is looked at later, since that takes time.
func (s *Service) readRegister(r *http.Request, x *registration) {
	get := func(name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }
	if x.named && !x.keepsEmail() {
		x.typed = *s.readSignUp(r, x.u)
	} else {
		t := typedSignUp{GivenName: get("given_name"), FamilyName: get("family_name"), Phone: get("phone"), phoneAgain: get("phone_again"), problems: map[string]string{}}
		t.Email, t.Verified = x.says.Email, *x.says.EmailVerified
		for field, v := range map[string]*string{"given_name": &t.GivenName, "family_name": &t.FamilyName, "phone": &t.Phone, "phone_again": &t.phoneAgain} {
			if !person.IsText(*v, person.MaxLine) {
				*v = "" // not shown again
				t.problem(field, "problem.text")
			}
		}
		s.readSignUpPerson(&t, x.u)
		if x.named && r.PostForm.Get("password") == "" {
			t.problem("password", "problem.password")
		}
		x.typed = t
	}
	t := &x.typed
	// What is not asked for, or not to be changed, is as the provider says.
	must := x.u.Attributes.PersonCreationMandatoryFields
	if x.fixed("given_name", x.says.GivenName) || !must.FirstNameRequired {
		t.GivenName = x.says.GivenName
		delete(t.problems, "given_name")
	}
	if x.fixed("family_name", x.says.FamilyName) || !must.LastNameRequired {
		t.FamilyName = x.says.FamilyName
		delete(t.problems, "family_name")
	}
	t.Custom = front.ReadCustom(x.fields, r.PostForm, t.problems)
	if !x.named {
		return
	}
	if t.Username = get("username"); !person.IsText(t.Username, person.MaxUsername) {
		t.Username = "" // not shown again
		t.problem("username", "problem.username_form")
	}
	if problem := usernameProblem(t.Username, t.Email); problem != "" {
		t.problem("username", problem)
	}
}

// usernameProblem says what is wrong with a username that somebody has chosen, or "". An address that is not theirs would keep its owner out.
func usernameProblem(name, email string) string {
	folded, err := person.Fold(name) // full-width letters are others until then
	switch {
	case name == "":
		return "problem.required"
	case err != nil, person.IsID(folded), strings.Contains(folded, `\`):
		return "problem.username_form"
	case strings.Contains(folded, "@") && person.FoldEmail(name) != person.FoldEmail(email):
		return "problem.username_email"
	}
	return ""
}

// handleRegister serves POST /sign-in/register?flow=…. There is no person before what has to be confirmed is.
func (s *Service) handleRegister(w http.ResponseWriter, r *http.Request) {
	x, ok := s.readRegistering(w, r)
	if !ok || !s.front.CheckPost(w, r, x.form(), RegisterURL(x.Name)) {
		return
	}
	again := RegisterURL(x.Name)
	if s.readRegister(r, x); len(x.typed.problems) > 0 {
		s.registerPage(w, r, x, http.StatusUnprocessableEntity, page.Form{})
		return
	}
	wait, err := s.countSignUp(r)
	if err == nil && wait == 0 && x.named {
		// The same hash for a name that is taken: the time does not tell.
		x.typed.PHC, err = s.person.HashNew(r.Context(), r.PostForm.Get("password"))
		if problem := front.PasswordProblem(err); problem != "" {
			x.typed.problem("password", problem)
			s.registerPage(w, r, x, http.StatusUnprocessableEntity, page.Form{})
			return
		}
	}
	if err != nil {
		s.front.Fail(w, r, err, again)
		return
	}
	if taken, err := s.isChosen(r.Context(), x); wait == 0 && (err != nil || taken) {
		s.failRegister(w, r, x, cmp.Or(err, person.ErrUsernameTaken))
		return
	}
	x.typed.Phone, _ = person.ParsePhone(x.typed.Phone)
	x.typed.Locale = s.pages.Lang(r, x.Flow.Demand.Locales, x.Flow.Demand.Client.ID)
	switch {
	case wait > 0:
		in := page.Form{}
		front.Waits(w, &in, "problem.wait", wait)
		s.registerPage(w, r, x, http.StatusTooManyRequests, in)
	case x.confirms(s) != "":
		s.awaitRegister(w, r, x)
	default:
		s.finishRegister(w, r, x, nil)
	}
}

// isChosen tells whether somebody has the username already, so that nobody confirms an address in vain. Whether somebody has the address is not
// told where it is confirmed.
func (s *Service) isChosen(ctx context.Context, x *registration) (taken bool, err error) {
	if !x.named || person.FoldEmail(x.typed.Username) == person.FoldEmail(x.typed.Email) {
		return false, nil
	}
	folded, err := person.Fold(x.typed.Username)
	if err != nil {
		return false, err
	}
	err = s.store.View(ctx, func(tx storage.Tx) error {
		_, err := person.ReadName(tx, event.DefaultPartition, folded)
		taken = err == nil
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		return err
	})
	return taken, err
}

// confirms is what is confirmed next, or "" when nothing is left. An address that was not asked for is what the provider makes of it.
func (x *registration) confirms(s *Service) string {
	t := x.typed
	t.Verified = t.Verified || !x.named
	return s.toConfirm(x.u, &t)
}

// keepTyped keeps what was typed with the answer of the provider, for as long as that one is good. spend uses up the code that has confirmed a part
// of it. nil: nothing was confirmed
func (s *Service) keepTyped(r *http.Request, x *registration, spend func(storage.Tx) (bool, error)) error {
	key := secret.Hash(x.Name)
	raw, err := cbor.Marshal(x.typed)
	if err != nil {
		return err
	}
	sealed, err := s.federation.Seal(registerPurpose, key, raw)
	if err != nil {
		return err
	}
	return s.store.Update(r.Context(), func(tx storage.Tx) error {
		rec, err := federation.ProviderFlows.Get(tx, key)
		if errors.Is(err, storage.ErrNotFound) || err == nil && rec.Identity == nil {
			return federation.ErrUsed
		}
		if err != nil {
			return err
		}
		if spend != nil {
			if ok, err := spend(tx); err != nil || !ok {
				return cmp.Or(err, person.ErrMismatch)
			}
		}
		rec.Typed = sealed
		return federation.ProviderFlows.Put(tx, key, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
}

// awaitRegister keeps what was typed, and sends a code to the address or the number.
func (s *Service) awaitRegister(w http.ResponseWriter, r *http.Request, x *registration) {
	if err := s.keepTyped(r, x, nil); err != nil {
		s.failRegister(w, r, x, err)
		return
	}
	wait, err := s.sendSignUp(r, x.u, x.pending())
	switch {
	case err != nil:
		s.failRegister(w, r, x, err)
	case wait > 0 && x.sent == x.pending().code(x.confirms(s)): // the code is there, and the page that takes it was left
		s.front.Redirect(w, r, registerCodeURL(x.Name))
	case wait > 0:
		in := page.Form{}
		front.Waits(w, &in, "problem.sent", wait)
		s.registerPage(w, r, x, http.StatusTooManyRequests, in)
	default:
		s.front.Redirect(w, r, registerCodeURL(x.Name))
	}
}

// pending is what waits for its code.
func (x *registration) pending() *pendingSignUp {
	p := &pendingSignUp{typed: x.typed, hash: secret.Hash(x.Name), bound: x.Rec.Tracker, action: registerCodeURL(x.Name), change: RegisterURL(x.Name)}
	p.typed.Verified = p.typed.Verified || !x.named
	return p
}

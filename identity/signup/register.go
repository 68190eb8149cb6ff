package signup

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/fxamacker/cbor/v2"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	registerPath     = "/sign-in/register"
	registerCodePath = registerPath + "/confirm"

	registerPurpose = "registration"
)

func registerURL(answer string) string {
	return registerPath + "?" + url.Values{"flow": {answer}}.Encode()
}

func registerCodeURL(answer string) string {
	return registerCodePath + "?" + url.Values{"flow": {answer}}.Encode()
}

// askFirst notes what a newcomer from a provider must fill in before the person is created. A password is not asked for
// if passwords sign no one in.
func askFirst(a *federation.Answer, n *federation.Newcomer) {
	named, fields := a.Settings.Registration(a.Provider.ID)
	n.Named = named && !a.Known.NoPassword
	n.Asked = n.Named || len(fields) > 0
}

// registration is a newcomer from a provider who is about to become a person. Until then there is only the verified
// answer of the provider. It is bound to this browser and creates at most one person.
type registration struct {
	*federation.Answer

	u     *settings.Units
	says  person.NewPerson // what the provider says
	named bool             // the newcomer gets a username that can be typed, and chooses a password
	// chooses: the newcomer chooses the username too. It is the address otherwise.
	chooses bool
	fields  person.CustomFields
	typed   signUpInput
	again   bool                  // the form was sent before
	sent    challenge.CodePurpose // of the code that was sent then
}

// isFixed reports whether a part of the profile is set by the provider, now and at each sign-in.
func (x *registration) isFixed(part, says string) bool { return says != "" && x.Provider.Writes(part) }

// keepsEmail reports whether the address is the one that the provider has verified.
func (x *registration) keepsEmail() bool {
	return *x.says.EmailVerified && isSignUpAddress(x.says.Email) && x.u.Features.CustomEmailValidation.Check(x.says.Email)
}

// readRegistration reads the answer of the provider that the request names.
func (s *Service) readRegistration(q *webflow.Request) (*registration, error) {
	a, err := s.deps.Federation.AnswerIn(q)
	if err != nil {
		return nil, err
	}
	if a.SignIn == "" || a.Flow.Invited != "" || a.Flow.Couple != "" || a.Flow.Demand.Passive { // see federation.Service.ask
		return nil, webflow.TooLate(person.DefaultReturn)
	}
	if err := webflow.CheckOpen(q.Settings); err != nil {
		return nil, err
	}
	x := &registration{Answer: a, u: q.Settings, says: a.Says()}
	named, fields := x.u.Registration(a.Provider.ID)
	x.named, x.fields = named && !a.Known.NoPassword, fields
	x.chooses = x.named && !s.deps.Person.EmailUsernames()
	if !x.named && len(fields) == 0 { // switched off meanwhile
		return nil, q.RedirectAway(a.Done())
	}
	if len(a.Rec.Typed) > 0 {
		raw, err := s.deps.Federation.Unseal(registerPurpose, secret.Hash(a.Name), a.Rec.Typed)
		if err == nil {
			err = cbor.Unmarshal(raw, &x.typed)
		}
		if err != nil {
			return nil, err
		}
		x.again, x.sent = true, x.pending().codePurpose(s.toConfirmNext(x))
	}
	q.Again = registerURL(x.Name)
	return x, nil
}

// showRegister serves GET /sign-in/register?flow=…: a newcomer from a provider makes an account.
func (s *Service) showRegister(q *webflow.Request) error {
	x, err := s.readRegistration(q)
	if err != nil {
		return err
	}
	t := &x.typed
	if x.again {
		t.emailAgain, t.phoneAgain = t.Email, t.Phone
	} else {
		t.Email, t.GivenName, t.FamilyName = x.says.Email, x.says.GivenName, x.says.FamilyName
		// An identifier of the provider is not a name that a person would choose.
		if t.Username = cmp.Or(x.Identity.Username, t.Email); usernameProblem(t.Username, t.Email) != "" {
			t.Username = ""
		}
	}
	return s.renderRegister(q, x, http.StatusOK, web.Form{})
}

func (s *Service) renderRegister(q *webflow.Request, x *registration, status int, in web.Form) error {
	in.Key, in.Fill, in.Action = "register", []any{"provider", x.Provider.Name}, registerURL(x.Name)
	if !x.named {
		in.Key = "register_more"
	}
	in.Fields = web.Fields(in.Problem != "", x.inputs()...)
	if _, verified := person.VerifiedEmail(x.Identity); verified && !x.Known.NoPassword {
		in.Links = []web.FormLink{{Label: "register.known", URL: federation.ConnectURL(x.Name)}}
	}
	in.Cancel = web.LocalPath(x.Flow.Demand.Cancel)
	return s.deps.Front.RenderForm(q, x.detour(), x.form(), status, in)
}

func (x *registration) detour() webflow.Detour {
	return webflow.Detour{ID: x.SignIn, Flow: x.Flow, U: x.u}
}

// form binds the form to the identity that it creates a person for.
func (x *registration) form() string { return "register:" + x.Name + ":" + x.Key() }

// handleRegister serves POST /sign-in/register?flow=…. It creates the person, unless a part must be confirmed first.
func (s *Service) handleRegister(q *webflow.Request) error {
	x, err := s.readRegistration(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, x.form(), q.Again)
	}
	if err != nil {
		return err
	}
	if x.readForm(q); len(x.typed.problems) > 0 {
		return s.renderRegister(q, x, http.StatusUnprocessableEntity, web.Form{})
	}
	wait, err := s.countSignUp(q)
	switch {
	case err != nil:
		return err
	case wait > 0:
		x.typed.finish(s, q, x.detour())
		return s.renderRegister(q, x, http.StatusTooManyRequests, webflow.WaitForm(q, "problem.wait", wait))
	}
	if x.named {
		// The same hash for a name that is taken, so the time does not show it.
		names := append(x.typed.names(), x.says.Names()...)
		x.typed.PHC, err = s.deps.Person.HashNew(q.Context(), q.PostForm.Get("password"), append(names, q.PostForm.Get("username"))...)
		if problem := webflow.PasswordProblem(err); problem != "" {
			x.typed.problem("password", problem)
			return s.renderRegister(q, x, http.StatusUnprocessableEntity, web.Form{})
		}
		if err != nil {
			return err
		}
	}
	if taken, err := s.isUsernameTaken(q.Context(), x); err != nil || taken {
		return s.failRegister(q, x, cmp.Or(err, person.ErrUsernameTaken))
	}
	x.typed.finish(s, q, x.detour())
	if s.toConfirmNext(x) != "" {
		return s.awaitRegister(q, x)
	}
	return s.finishRegister(q, x, nil)
}

// isUsernameTaken reports whether another person has the username, so the newcomer does not confirm an address for
// nothing. Whether an address is taken is not told before it is confirmed.
func (s *Service) isUsernameTaken(ctx context.Context, x *registration) (taken bool, err error) {
	if !x.named || person.FoldEmail(x.typed.Username) == person.FoldEmail(x.typed.Email) {
		return false, nil
	}
	folded, err := person.Fold(x.typed.Username)
	if err != nil {
		return false, err
	}
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		_, err := person.ReadName(tx, audit.DefaultPartition, folded)
		if taken = err == nil; errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		return err
	})
	return taken, err
}

// toConfirmNext is the part that is confirmed next, or "" if none is left. An address that was not asked for is
// verified if the provider says so.
func (s *Service) toConfirmNext(x *registration) string {
	return s.toConfirm(x.u, &x.pending().typed)
}

// pending returns the form as what waits for its code.
func (x *registration) pending() *pendingSignUp {
	p := &pendingSignUp{
		typed: x.typed, hash: secret.Hash(x.Name), browser: x.Rec.Tracker,
		action: registerCodeURL(x.Name), change: registerURL(x.Name),
	}
	p.typed.Verified = p.typed.Verified || !x.named
	return p
}

// keepInput stores the form with the answer of the provider, until the answer expires. spend uses up the code that has
// confirmed a part; nil: none.
func (s *Service) keepInput(q *webflow.Request, x *registration, spend func(storage.Tx) (bool, error)) error {
	key := secret.Hash(x.Name)
	raw, err := cbor.Marshal(x.typed)
	if err != nil {
		return err
	}
	sealed, err := s.deps.Federation.Seal(registerPurpose, key, raw)
	if err != nil {
		return err
	}
	return s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
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

// awaitRegister stores the form, and sends a code to the address or the number.
func (s *Service) awaitRegister(q *webflow.Request, x *registration) error {
	if err := s.keepInput(q, x, nil); err != nil {
		return s.failRegister(q, x, err)
	}
	p := x.pending()
	wait, err := s.sendSignUpCode(q, x.u, p)
	if err != nil {
		return s.failRegister(q, x, err)
	}
	// The same code can be typed still if the person has only left the page for it.
	if wait > 0 && x.sent != p.codePurpose(s.toConfirmNext(x)) {
		return s.renderRegister(q, x, http.StatusTooManyRequests, webflow.WaitForm(q, "problem.sent", wait))
	}
	return q.Redirect(registerCodeURL(x.Name))
}

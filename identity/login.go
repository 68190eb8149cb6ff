package identity

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	flowLife   = time.Hour
	maxLocales = 10
	// flowMemory is how long after its end a flow still knows where "Start again" leads. What it leads to is not kept for longer either, and
	// strangers can have flows stored.
	flowMemory = 24 * time.Hour
)

// Authenticate returns the browser's sign-in when it satisfies d. Otherwise it stores d, bound to this browser, redirects to the sign-in page
// and returns login.ErrResponded, or returns a *login.Refusal. Any other error: we cannot tell.
func (s *Service) Authenticate(w http.ResponseWriter, r *http.Request, d login.Demand) (*login.Result, error) {
	if !d.Passive && page.LocalPath(d.Return) == "" { // who asks without a page needs no way back
		return nil, errors.New("identity: Demand.Return is not a path of ours")
	}
	si, err := s.current(r)
	if err != nil {
		return nil, err
	}
	known, err := s.providers(r.Context())
	if err != nil {
		return nil, err
	}
	d = known.ofService(d)
	u, err := s.configured(r.Context())
	if err != nil {
		return nil, err
	}
	d.Level = max(d.Level, u.RequiredLevel(d.Client.ID))
	reader, ok := known.reads(d)
	if !ok {
		return nil, &login.Refusal{Code: "access_denied", Reason: "the identity provider is not available"}
	}
	if reader != nil {
		switch id, err := reader.reader.Read(r); {
		case err == nil:
			found, err := s.authenticateExternal(w, r, d, reader, id, si)
			return found, s.answerClosed(w, r, d, err)
		case !errors.Is(err, idp.ErrNoIdentity):
			return nil, s.refuseExternal(w, r, d, reader, err)
		}
		d = withoutIdentity(d, reader.ID)
	}
	if si != nil && s.satisfies(si, d) {
		s.touch(r, si)
		return s.resultFor(si, d), nil
	}
	if err := s.isOpen(r.Context()); err != nil {
		return nil, s.answerClosed(w, r, d, err)
	}
	if refusal, err := s.takeRefusal(r, d); err != nil || refusal != nil {
		return nil, cmp.Or[error](err, refusal)
	}
	ways := known.ways(d)
	if si != nil && s.meets(si, d) {
		if done, err := s.sendToStepUp(w, r, d, si, ways); done || err != nil {
			return nil, cmp.Or(err, login.ErrResponded)
		}
	} else if d.Level > max(passwordLevel, known.reach) && len(ways.providers) == 0 && !(d.Passive && si == nil) {
		return nil, unreachable(d)
	}
	if d.Passive {
		// A provider may know the person without asking, which takes a redirect there and back.
		if ways.straight == nil {
			return nil, &login.Refusal{Code: "login_required", Reason: "nobody is signed in, or not as is demanded"}
		}
		if d.Return == "" {
			return nil, &login.Refusal{Code: "login_required", Reason: "nobody is signed in, or not as is demanded", Elsewhere: true}
		}
	}
	if !ways.password && !ways.passkey && len(ways.providers) == 0 {
		return nil, s.refuseExternal(w, r, d, reader, idp.ErrNoIdentity)
	}
	id, err := s.newFlow(w, r, d)
	if err != nil {
		return nil, err
	}
	w.Header().Set("Cache-Control", "no-store")
	to := flowURL(id)
	if ways.straight != nil {
		to = providerURL(id, ways.straight.ID)
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil, login.ErrResponded
}

// sendToStepUp sends a browser whose sign-in is good but for its level to the page that raises it. It is not done where a provider may reach the
// level instead.
func (s *Service) sendToStepUp(w http.ResponseWriter, r *http.Request, d login.Demand, si *signedIn, ways *ways) (done bool, err error) {
	st, err := s.standingOf(r.Context(), si)
	if err != nil {
		return false, err
	}
	switch {
	case !st.can(d.Level):
		// Who has just signed in for this would do so again and again.
		if len(ways.providers) == 0 || (d.Return != "" && si.session.SignedInFor == secret.Hash(d.Return)) {
			return false, unreachable(d)
		}
		return false, nil
	case d.Passive:
		return false, &login.Refusal{Code: "interaction_required", Reason: "the authentication level needs a step-up"}
	}
	id, err := s.newFlow(w, r, d)
	if err != nil {
		return false, err
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, stepUpURL(id), http.StatusSeeOther)
	return true, nil
}

// unmetLevel is the error code for a level that cannot be reached. (OpenID Connect Core Error Code unmet_authentication_requirements 1.0)
const unmetLevel = "unmet_authentication_requirements"

// unreachable says that no sign-in there is reaches the level that is demanded.
func unreachable(d login.Demand) error { return unreachableAt(d) }

func unreachableAt(d login.Demand) *login.Refusal {
	code := unmetLevel
	if d.Passive {
		code = "interaction_required"
	}
	return &login.Refusal{Code: code, Reason: "the authentication level cannot be reached"}
}

// satisfies tells whether a sign-in is good enough. What the person did for this very Return is not asked for twice, so that no demand
// can lead in circles.
func (s *Service) satisfies(si *signedIn, d login.Demand) bool {
	return si.session.Level >= d.Level && s.meets(si, d)
}

// meets is satisfies but for the level.
func (s *Service) meets(si *signedIn, d login.Demand) bool {
	rec, purpose := si.session, secret.Hash(d.Return)
	if !accepts(d, rec.Provider) {
		return false
	}
	forThis := d.Return != "" && rec.SignedInFor == purpose
	// Stored times have microseconds; what is compared is coarser, so that rounding decides nothing.
	notBefore := d.NotBefore.Truncate(time.Millisecond)
	since := func(t time.Time) bool { return !d.NotBefore.IsZero() && !t.Before(notBefore) }
	if d.SelectAccount {
		return forThis || since(rec.AuthTime) || (s.chosen(si, d) && s.isFresh(rec, d))
	}
	if !d.NotBefore.IsZero() && (rec.Unproven || !since(rec.AuthTime)) && !forThis {
		return false // prompt=login
	}
	return forThis || s.isFresh(rec, d)
}

// chosen tells whether the person has confirmed this account for the demand.
func (s *Service) chosen(si *signedIn, d login.Demand) bool {
	return (d.Return != "" && si.session.ConfirmedFor == secret.Hash(d.Return)) ||
		(!d.NotBefore.IsZero() && !si.session.ConfirmedAt.Before(d.NotBefore.Truncate(time.Millisecond)))
}

// isFresh: OpenID Connect Core 3.1.2.1, max_age. A sign-in elsewhere that may be of any age is not: the provider is asked for a new one.
func (s *Service) isFresh(rec sessionRecord, d login.Demand) bool {
	return d.MaxAge < 0 || (!rec.Unproven && s.Now().Sub(rec.AuthTime) <= d.MaxAge)
}

// newFlow stores a sign-in under way and returns its id.
func (s *Service) newFlow(w http.ResponseWriter, r *http.Request, d login.Demand) (string, error) {
	if !s.Admit(r) {
		return "", errTooMany
	}
	browser, err := s.jar.Browser(w, r, s.newID)
	if err != nil {
		return "", err
	}
	id, err := secret.ID(s.Random, 16)
	if err != nil {
		return "", err
	}
	// What cannot be shown need not be stored.
	if !isText(d.Hint, maxUsername) {
		d.Hint = ""
	}
	d.Locales = slices.DeleteFunc(slices.Clone(d.Locales[:min(len(d.Locales), maxLocales)]), func(l string) bool { return !isText(l, 64) })
	now := s.Now()
	rec := flowRecord{Demand: d, Browser: secret.Hash(browser), CreatedAt: now, ExpiresAt: now.Add(flowLife)}
	return id, s.Store.Update(r.Context(), func(tx storage.Tx) error {
		return flows.Create(tx, id, rec, rec.ExpiresAt.Add(flowMemory))
	})
}

// changeFlow changes a sign-in under way.
func (s *Service) changeFlow(ctx context.Context, id string, change func(*flowRecord)) error {
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		f, err := flows.Get(tx, id)
		if err != nil {
			return err
		}
		change(&f)
		return flows.Put(tx, id, f, f.ExpiresAt.Add(flowMemory))
	})
}

func flowURL(id string) string { return "/sign-in?flow=" + url.QueryEscape(id) }

// flow returns the flow of the request when it is of this browser and still good; otherwise it has written the answer and is not ok.
func (s *Service) flow(w http.ResponseWriter, r *http.Request) (id string, rec flowRecord, ok bool) {
	return s.flowOf(w, r, r.URL.Query().Get("flow"))
}

// flowOf is flow for a request that does not name it itself.
func (s *Service) flowOf(w http.ResponseWriter, r *http.Request, id string) (_ string, rec flowRecord, ok bool) {
	rec, err := s.readFlow(r.Context(), id)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		s.Pages.Error(w, r, http.StatusBadRequest, "error.expired", "/account")
	case err != nil:
		s.fail(w, r, err, "")
	case !s.jar.SameBrowser(r, rec.Browser):
		// The id alone opens nothing: it may have come in a link from somebody else. Nor does the answer lead into that flow.
		s.Pages.Error(w, r, http.StatusForbidden, "error.forbidden", "")
	case !rec.ExpiresAt.After(s.Now()):
		s.Pages.Error(w, r, http.StatusBadRequest, "error.expired", rec.Demand.Return)
	default:
		return id, rec, true
	}
	return "", rec, false
}

func (s *Service) readFlow(ctx context.Context, id string) (rec flowRecord, err error) {
	if id == "" || len(id) > 64 {
		return rec, storage.ErrNotFound
	}
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		rec, err = flows.Get(tx, id)
		return err
	})
	return rec, err
}

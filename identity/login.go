package identity

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/login"
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

// accepts tells whether a sign-in by the provider is good for the demand.
func accepts(d login.Demand, by string) bool {
	if d.Provider != "" {
		return d.Provider == by
	}
	return len(d.Providers) == 0 || slices.Contains(d.Providers, by)
}

package webflow

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// FlowLife is the maximum duration of a sign-in.
	FlowLife   = time.Hour
	maxLocales = 10
	maxFlowID  = 64
	// FlowMemory is the time that an expired flow is stored, so "Start again" leads somewhere. What it leads to is not
	// stored for longer either, and strangers can have flows stored.
	FlowMemory = 24 * time.Hour
)

// UnmetLevel is the error code for a level that cannot be reached. (OpenID Connect Core Error Code
// unmet_authentication_requirements 1.0)
const UnmetLevel = "unmet_authentication_requirements"

// Satisfies reports whether a sign-in is good enough. What the person did for this very Return is not asked for twice,
// so no demand leads in circles.
func (s *Service) Satisfies(si *session.Current, d authn.Demand) bool {
	return si.Session.Level >= d.Level && s.Meets(si, d)
}

// Meets is Satisfies without regard to the level.
func (s *Service) Meets(si *session.Current, d authn.Demand) bool {
	rec, purpose := si.Session, secret.Hash(d.Return)
	if !accepts(d, rec.Provider) {
		return false
	}
	forThis := d.Return != "" && rec.SignedInFor == purpose
	// Stored times have microseconds; the comparison is coarser, so rounding decides nothing.
	notBefore := d.NotBefore.Truncate(time.Millisecond)
	since := func(t time.Time) bool { return !d.NotBefore.IsZero() && !t.Before(notBefore) }
	if d.SelectAccount {
		return forThis || since(rec.AuthTime) || (s.Chosen(si, d) && s.isFresh(rec, d))
	}
	if !d.NotBefore.IsZero() && (rec.Unproven || !since(rec.AuthTime)) && !forThis {
		return false // prompt=login
	}
	return forThis || s.isFresh(rec, d)
}

// Chosen reports whether the person has confirmed this account for the demand.
func (s *Service) Chosen(si *session.Current, d authn.Demand) bool {
	return (d.Return != "" && si.Session.ConfirmedFor == secret.Hash(d.Return)) ||
		(!d.NotBefore.IsZero() && !si.Session.ConfirmedAt.Before(d.NotBefore.Truncate(time.Millisecond)))
}

// isFresh reports whether a sign-in is young enough (OpenID Connect Core 3.1.2.1, max_age). A sign-in elsewhere of
// unknown age is not: the provider is asked for a new one.
func (s *Service) isFresh(rec session.Record, d authn.Demand) bool {
	return d.MaxAge < 0 || (!rec.Unproven && s.deps.Now().Sub(rec.AuthTime) <= d.MaxAge)
}

// NewFlow stores a sign-in under way and returns its id.
func (s *Service) NewFlow(w http.ResponseWriter, r *http.Request, d authn.Demand) (string, error) {
	// A hint that cannot be shown need not be stored.
	if !person.IsText(d.Hint, person.MaxUsername) {
		d.Hint = ""
	}
	d.Locales = slices.DeleteFunc(slices.Clone(d.Locales[:min(len(d.Locales), maxLocales)]),
		func(l string) bool { return !person.IsText(l, 64) })
	now := s.deps.Now()
	rec := FlowRecord{Demand: d, CreatedAt: now, ExpiresAt: now.Add(FlowLife)}
	if !s.deps.Admit(r, FlowRecords.Size(rec)) {
		return "", ErrTooMany
	}
	browser, err := s.deps.Jar.Browser(w, r, s.NewID)
	if err != nil {
		return "", err
	}
	id, err := secret.ID(s.deps.Random, 16)
	if err != nil {
		return "", err
	}
	rec.Browser = secret.Hash(browser)
	return id, s.deps.Store.Update(r.Context(), func(tx storage.Tx) error {
		return FlowRecords.Create(tx, id, rec, rec.ExpiresAt.Add(FlowMemory))
	})
}

// ChangeFlow changes a sign-in under way.
func (s *Service) ChangeFlow(ctx context.Context, id string, change func(*FlowRecord)) error {
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error { return ChangeFlowIn(tx, id, change) })
}

// ChangeFlowIn is ChangeFlow within a transaction.
func ChangeFlowIn(tx storage.Tx, id string, change func(*FlowRecord)) error {
	f, err := FlowRecords.Get(tx, id)
	if err != nil {
		return err
	}
	change(&f)
	return FlowRecords.Put(tx, id, f, f.ExpiresAt.Add(FlowMemory))
}

// FlowURL is the sign-in page of a flow.
func FlowURL(id string) string { return "/sign-in?flow=" + url.QueryEscape(id) }

// AnotherInFlow is the sign-in page of a flow for a person who asks for another account.
func AnotherInFlow(id string) string { return FlowURL(id) + "&other=1" }

// accepts reports whether the demand accepts a sign-in by the provider.
func accepts(d authn.Demand, by string) bool {
	if d.Provider != "" {
		return d.Provider == by
	}
	return len(d.Providers) == 0 || slices.Contains(d.Providers, by)
}

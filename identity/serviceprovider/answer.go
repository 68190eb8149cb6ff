package serviceprovider

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samlidp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// visitKept is the time that a visit is stored: longer than any session.
const visitKept = 400 * 24 * time.Hour

// demand returns the sign-in that a request needs, and false if no sign-in here can satisfy it. cookie says that an
// existing session is enough.
func (o *open) demand(cookie bool) (authn.Demand, bool) {
	level, ok := demanded(o.rec.Comparison, o.rec.Classes)
	d := authn.Demand{
		Level: max(level, o.m.Level), SecondFactor: o.m.SecondFactor, MaxAge: -1, Passive: o.rec.Passive, Client: o.m.client(),
		Return: continueURL(o.name), Cancel: continueURL(o.name) + "&cancel=1",
	}
	d.Client.Targets = origin(o.rec.Service)
	if named := o.rec.Subject; spelled(named.Format) != saml.FormatPersistent && spelled(named.Format) != saml.FormatTransient {
		d.Hint = named.Value
	}
	if o.rec.Force || !cookie {
		d.NotBefore, d.Anew = o.rec.CreatedAt, !o.rec.Force
	}
	return d, ok
}

// showContinue serves GET /sso/continue?flow=…: the answer to a request, once the person has signed in.
func (s *Service) showContinue(q *webflow.Request) error {
	o, err := s.openOf(q)
	if err != nil {
		return err
	}
	q.Again = continueURL(o.name)
	if q.URL.Query().Has("cancel") {
		return s.refuse(q, o, samlidp.Responder, samlidp.AuthnFailed, denial.Refusal{Reason: denial.SignInNeeded},
			errors.New("the person has cancelled the sign-in"))
	}
	return s.answer(q, o, nil)
}

// answer signs the person in at the service provider, or asks first. decision is the consent of the person. nil: they
// were not asked yet.
func (s *Service) answer(q *webflow.Request, o *open, decision *decision) error {
	if o.rec.Unnamed {
		return s.refuse(q, o, samlidp.Requester, samlidp.RequestUnsupported, denial.Refusal{Reason: denial.ServiceProviderRequest},
			errors.New("the request has a Subject that is not a plain NameID"))
	}
	format, err := o.m.format(o.meta, o.rec.Format, o.rec.Qualifier)
	if err != nil {
		return s.refuse(q, o, samlidp.Requester, samlidp.InvalidNameIDPolicy, denial.Refusal{Reason: denial.ServiceProviderRequest}, err)
	}
	d, ok := o.demand(q.Settings.Features.CookieBasedSAMLAuthentication)
	if !ok {
		return s.refuse(q, o, samlidp.Responder, samlidp.NoAuthnContext, denial.Refusal{Reason: denial.LevelTooLow},
			errors.New("the request asks for a class of sign-in that does not exist here"))
	}
	result, err := s.front.Authenticate(q, d)
	refused := new(authn.Refusal)
	switch {
	case errors.As(err, &refused):
		return s.refuseSignIn(q, o, refused)
	case err != nil:
		return err
	}
	if o.rec.Subject.Value != "" {
		is, err := s.isPerson(q, o, result)
		if err != nil {
			return err
		}
		if !is {
			return s.refuse(q, o, samlidp.Responder, samlidp.UnknownPrincipal, denial.Refusal{Reason: denial.ServiceProviderRequest},
				errors.New("the request names a different person than the one who has signed in"))
		}
	}
	class, ok := class(o.rec.Comparison, o.rec.Classes, result)
	if !ok {
		return s.refuse(q, o, samlidp.Responder, samlidp.NoAuthnContext, denial.Refusal{Reason: denial.LevelTooLow},
			errors.New("the sign-in is not of a class that the request asks for"))
	}
	x := &entry{o: o, result: result, format: format, class: class, decision: decision}
	if err := s.judge(q, x); err != nil {
		return err
	}
	if x.asks {
		return s.ask(q, x)
	}
	return s.respond(q, x)
}

// isPerson reports whether the person who has signed in is the one that the request names.
func (s *Service) isPerson(q *webflow.Request, o *open, result *authn.Result) (is bool, err error) {
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) error {
		who, err := s.subjectIn(tx, result.Subject, result.Details)
		if err != nil {
			return err
		}
		is, err = s.isNamed(tx, o.m, o.rec.Entity, o.rec.Subject, who)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, person.ErrNoPerson) { // removed this very moment
		return false, cmp.Or(q.Redirect(continueURL(o.name)), webflow.ErrAnswered)
	}
	return is, err
}

// refuseSignIn tells the service provider that there is no sign-in.
func (s *Service) refuseSignIn(q *webflow.Request, o *open, r *authn.Refusal) error {
	why, detail := denial.Refusal{Reason: denial.SignInNeeded}, samlidp.AuthnFailed
	switch {
	case o.rec.Passive:
		detail = samlidp.NoPassive
	case r.Code == webflow.UnmetLevel:
		why.Reason, detail = denial.NoSecondFactor, samlidp.NoAuthnContext
	}
	return s.refuse(q, o, samlidp.Responder, detail, why, r)
}

// entry is a sign-in at a service provider that is in progress.
type entry struct {
	o        *open
	result   *authn.Result
	format   string
	class    string
	decision *decision

	who  *subject
	told []releasedAttribute
	asks bool // the person is asked first
}

// judge decides which attributes are released, and whether the person is asked first. A person who must not sign in
// gets a page.
func (s *Service) judge(q *webflow.Request, x *entry) error {
	var have grantRecord
	err := s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		if x.who, err = s.subjectIn(tx, x.result.Subject, x.result.Details); err != nil {
			return err
		}
		have, _, err = grants.Find(tx, storage.Key(x.result.Subject, x.o.m.ID))
		return err
	})
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, person.ErrNoPerson) { // removed this very moment
		return cmp.Or(q.Redirect(continueURL(x.o.name)), webflow.ErrAnswered)
	}
	if err != nil {
		return err
	}
	reason, err := x.o.m.may(x.who, s.now())
	if err != nil {
		key := "error.denied"
		if reason == denial.AssuranceTooLow {
			key = "error.assurance"
		}
		return s.deny(q, x, key, denial.Refusal{Reason: reason, WantedGroups: x.o.m.Groups, Groups: x.who.Groups}, err)
	}
	all, missing := x.o.m.release(x.who)
	if len(missing) > 0 {
		cause := fmt.Errorf("the person lacks the attributes %q", missing)
		err := s.deny(q, x, "error.attribute", denial.Refusal{Reason: denial.AttributeMissing}, cause)
		if page := new(webflow.Answer); errors.As(err, &page) {
			page.Again = webflow.ProfilePath
		}
		return err
	}
	if x.decision != nil {
		x.decision.decide(all)
		have.Agreed, have.Declined = x.decision.agreed, x.decision.declined
	}
	for _, t := range all {
		switch {
		case !x.o.m.Consent:
			x.told = append(x.told, t)
		case t.Optional && slices.Contains(have.Declined, t.Source):
		case slices.Contains(have.Agreed, t.Source):
			x.told = append(x.told, t)
		default:
			x.asks = true
		}
	}
	if x.asks {
		x.told = all
	}
	return nil
}

// deny shows a page that says why the person cannot sign in there. If no page is allowed, it tells the service provider
// that a page would be needed. (SAML core 3.4.1, IsPassive)
func (s *Service) deny(q *webflow.Request, x *entry, key string, why denial.Refusal, cause error) error {
	if x.o.rec.Passive {
		return cmp.Or(s.refuse(q, x.o, samlidp.Responder, samlidp.NoPassive, why, cause), webflow.ErrAnswered)
	}
	why.ClientID = x.o.m.ID
	return s.pageError(q, http.StatusForbidden, key, why, cause)
}

// may is the one place that decides who can sign in at a service provider.
func (m *member) may(p *subject, now time.Time) (denial.Reason, error) {
	switch {
	case !p.Active:
		return denial.PersonBlocked, errors.New("the person is not active")
	case p.Assurance.Level(now) < m.Assurance:
		return denial.AssuranceTooLow, fmt.Errorf("needs identity assurance level %d; has %d", m.Assurance, p.Assurance.Level(now))
	case len(m.Groups) > 0 && !slices.ContainsFunc(m.Groups, func(g string) bool { return slices.Contains(p.Groups, g) }):
		return denial.GroupMissing, errors.New("the person is not in any of the groups of the service provider")
	}
	return "", nil
}

// respond stores the sign-in at the service provider and sends the browser there.
func (s *Service) respond(q *webflow.Request, x *entry) error {
	w, err := s.writer(q.Context())
	if err != nil {
		return err
	}
	fresh, err := secret.ID(s.deps.Random, nameBytes)
	if err != nil {
		return err
	}
	newIndex, err := secret.ID(s.deps.Random, nameBytes)
	if err != nil {
		return err
	}
	kinds := []audit.Type{eventSignedIn}
	if x.decision != nil {
		kinds = append(kinds, eventAgreed)
	}
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), kinds...)
	if err != nil {
		return err
	}
	by := audit.Actor{ID: x.who.ID, Name: x.who.Username, Session: x.result.SessionID}
	for i := range ev {
		ev[i] = by.Fill(ev[i], x.who.ID, x.o.m.Name)
		ev[i].ClientID = x.o.m.ID
	}
	var name samlidp.NameID
	var index string
	now := s.now()
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) (err error) {
		// The current state counts, not that of when the page was made.
		if _, err := s.deps.Session.Get(tx, x.result.SessionID, now); err != nil {
			return err
		}
		if err := spendIn(tx, x.o); err != nil {
			return err
		}
		if name, err = s.nameIn(tx, x.o.m, x.o.rec.Entity, x.format, x.who, fresh); err != nil {
			return err
		}
		if err := rememberGrant(tx, x, now); err != nil {
			return err
		}
		if index, err = rememberVisit(tx, x, name, newIndex, now); err != nil {
			return err
		}
		for _, e := range ev {
			if err := s.deps.Events.Append(tx, e); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, storage.ErrNotFound): // signed out meanwhile
		return q.Redirect(continueURL(x.o.name))
	case errors.Is(err, errNoName):
		return s.deny(q, x, "error.attribute", denial.Refusal{Reason: denial.AttributeMissing}, err)
	case errors.Is(err, idp.ErrReplayed):
		return s.badRequest(q, x.o.m.ID, err)
	case err != nil:
		return err
	}
	next, err := w.Respond(samlidp.Answer{
		Metadata: x.o.meta, Service: x.o.service(), Request: x.o.rec.ID, Relay: x.o.rec.Relay, NameID: name, Attributes: x.o.m.written(x.told),
		Class: x.class, AuthTime: x.result.AuthTime, Session: index, Plain: x.o.m.Plain,
	})
	if err != nil {
		return fmt.Errorf("answer a service provider: %w", err)
	}
	s.send(q, x.o.m, next, false)
	return nil
}

// rememberGrant stores that the person has signed in at the service provider, and which attributes were released.
func rememberGrant(tx storage.Tx, x *entry, now time.Time) error {
	key := storage.Key(x.who.ID, x.o.m.ID)
	rec, found, err := grants.Find(tx, key)
	if err != nil {
		return err
	}
	if !found {
		rec.First = now
	}
	rec.Last, rec.Told = now, sources(x.told)
	if x.decision != nil {
		rec.Agreed, rec.Declined = x.decision.agreed, x.decision.declined
	}
	return grants.Put(tx, key, rec, never)
}

// rememberVisit stores that the service provider knows the session, and returns the SessionIndex. A second sign-in in
// one session keeps that of the first.
func rememberVisit(tx storage.Tx, x *entry, name samlidp.NameID, index string, now time.Time) (string, error) {
	entity, id := x.o.rec.Entity, x.result.SessionID
	key := storage.Key(x.who.ID, id, secret.Hash(entity))
	if old, found, err := visits.Find(tx, key); err != nil {
		return "", err
	} else if found {
		index = old.Index
		if old.Name != name.Value {
			if err := visitors.Delete(tx, visitorKey(entity, old.Name, id)); err != nil {
				return "", err
			}
		}
	}
	rec := visitRecord{
		Provider: x.o.m.ID, Entity: entity, Name: name.Value, Format: name.Format,
		Qualifier: name.Qualifier, Index: index, At: now,
	}
	if err := visits.Put(tx, key, rec, now.Add(visitKept)); err != nil {
		return "", err
	}
	return index, visitors.Put(tx, visitorKey(entity, name.Value, id), visitorRecord{Person: x.who.ID, Index: index}, now.Add(visitKept))
}

func visitorKey(entity, name, session string) string {
	return storage.Key(secret.Hash(storage.Key(entity, name)), session)
}

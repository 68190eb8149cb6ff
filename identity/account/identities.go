package account

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/stepup"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const identitiesPath = front.SecurityPath + "/accounts"

// IdentitiesSection names the accounts elsewhere that sign the person in.
func (s *Service) IdentitiesSection(tx storage.Tx, si *session.Current, _ *stepup.Standing) (*page.SecuritySection, error) {
	list, err := person.CoupledIdentities(tx, si.Session.PersonID)
	if err != nil || len(list) == 0 && len(s.federation.Connectable()) == 0 {
		return nil, err
	}
	out := &page.SecuritySection{Key: "accounts", State: "off", Actions: []page.SecurityAction{{Label: "security.accounts.manage", URL: identitiesPath}}}
	for _, c := range list {
		out.State = "on"
		out.Items = append(out.Items, page.Row{Icon: "check", Name: s.federation.ProviderName(c.Provider)})
	}
	return out, nil
}

// ownIdentities returns who may couple and uncouple their own account, which is a way in: it needs what setting up a method does. Otherwise it has
// written the answer and is not ok.
func (s *Service) ownIdentities(w http.ResponseWriter, r *http.Request) (a *front.Visit, list []person.CoupledIdentity, ok bool) {
	if _, _, ok = s.stepup.RequireSetUp(w, r, identitiesPath); !ok {
		return nil, nil, false
	}
	if a, ok = s.front.Guard(w, r, identitiesPath); !ok {
		return nil, nil, false
	}
	err := s.store.View(r.Context(), func(tx storage.Tx) (err error) {
		list, err = person.CoupledIdentities(tx, a.Si.Session.PersonID)
		return err
	})
	if err == nil {
		_, err = s.federation.Registry(r.Context(), a.U) // so that those are known that have come meanwhile
	}
	if err != nil {
		s.front.Fail(w, r, err, identitiesPath)
		return nil, nil, false
	}
	return a, list, true
}

// showIdentities serves GET /account/security/accounts.
func (s *Service) showIdentities(w http.ResponseWriter, r *http.Request) {
	if a, list, ok := s.ownIdentities(w, r); ok {
		s.identitiesPage(w, r, a, list, http.StatusOK, "")
	}
}

func (s *Service) identitiesPage(w http.ResponseWriter, r *http.Request, a *front.Visit, list []person.CoupledIdentity, status int, problem string) {
	action := func(label, do, id string) []page.Action {
		return []page.Action{{Label: label, URL: identitiesPath, CSRF: a.Csrf, Fields: []page.Hidden{{Name: "do", Value: do}, {Name: "provider", Value: id}}}}
	}
	have, more := page.Part{Empty: "accounts.none"}, page.Part{ID: "more", Title: page.Say("accounts.more")}
	for _, c := range list {
		row := page.Row{Icon: "check", Name: s.federation.ProviderName(c.Provider), Actions: action("accounts.disconnect", "disconnect", c.Provider)}
		if !c.Rec.Since.IsZero() {
			row.Details = []page.Text{page.Say("accounts.since", "time", c.Rec.Since)}
		}
		have.Rows = append(have.Rows, row)
	}
	for _, p := range s.federation.Connectable() {
		if a.MayCouple(list) && !slices.ContainsFunc(list, func(c person.CoupledIdentity) bool { return c.Provider == p.ID }) {
			more.Rows = append(more.Rows, page.Row{Icon: "key", Name: p.Name, Actions: action("accounts.connect", "connect", p.ID)})
		}
	}
	d := page.Dashboard{Key: "accounts", Problem: problem, Parts: []page.Part{have}}
	if len(more.Rows) > 0 {
		d.Parts = append(d.Parts, more)
	}
	s.front.RenderAccount(w, r, a, status, d)
}

// handleIdentities serves POST /account/security/accounts: the way to a provider whose account is to sign the person in, or the end of one that does.
func (s *Service) handleIdentities(w http.ResponseWriter, r *http.Request) {
	a, list, ok := s.ownIdentities(w, r)
	if !ok || !s.front.CheckSecurityForm(w, r, a.Si, identitiesPath, identitiesPath) {
		return
	}
	id := r.PostForm.Get("provider")
	if r.PostForm.Get("do") == "disconnect" {
		s.disconnect(w, r, a, list, id)
		return
	}
	i := slices.IndexFunc(s.federation.Connectable(), func(p *federation.Member) bool { return p.ID == id })
	if r.PostForm.Get("do") != "connect" || i < 0 || !a.MayCouple(list) || slices.ContainsFunc(list, func(c person.CoupledIdentity) bool { return c.Provider == id }) {
		s.front.Redirect(w, r, identitiesPath)
		return
	}
	flow, err := s.newCoupling(w, r, login.Demand{MaxAge: -1, Provider: id, Return: identitiesPath, Cancel: identitiesPath, Locales: a.Si.Locales()}, a.Si.ID)
	if err != nil {
		s.front.Fail(w, r, err, identitiesPath)
		return
	}
	s.front.Redirect(w, r, federation.ProviderURL(flow, id)+"&hop=1")
}

// newCoupling is front.NewFlow for an identity that is to sign in the person of a session from now on.
func (s *Service) newCoupling(w http.ResponseWriter, r *http.Request, d login.Demand, session string) (string, error) {
	id, err := s.front.NewFlow(w, r, d)
	if err != nil {
		return "", err
	}
	return id, s.store.Update(r.Context(), func(tx storage.Tx) error {
		f, err := front.FlowRecords.Get(tx, id)
		if err != nil {
			return err
		}
		f.Couple = session
		return front.FlowRecords.Put(tx, id, f, f.ExpiresAt.Add(front.FlowMemory))
	})
}

// CoupleOwn couples the identity of an answer with the person who has asked for it on the account page. Nobody is signed in by it.
func (s *Service) CoupleOwn(w http.ResponseWriter, r *http.Request, n *federation.Answer) {
	a, list, ok := s.ownIdentities(w, r)
	if !ok {
		return
	}
	if a.Si.ID != n.Flow.Couple { // another person's, or of another sign-in
		s.pages.Error(w, r, http.StatusForbidden, "error.forbidden", identitiesPath)
		return
	}
	ev, err := s.person.NewEvents(s.origin(r), federation.IdentityCoupled)
	now := s.now()
	if err == nil {
		err = s.store.Update(r.Context(), func(tx storage.Tx) error {
			if _, err := s.stepup.MaySetUp(tx, a.Si); err != nil {
				return err
			}
			have, err := person.CoupledIdentities(tx, a.Si.Session.PersonID)
			if err != nil {
				return err
			}
			if !a.MayCouple(have) {
				return person.ErrCoupledOther
			}
			if err := useUp(tx, n); err != nil {
				return err
			}
			known, err := person.Identities.Has(tx, n.Key())
			if err != nil {
				return err
			}
			if err := s.person.CoupleIdentity(tx, n.Provider.ID, n.Identity, a.Si.Session.PersonID, now); err != nil || known {
				return err
			}
			if err := s.person.TellCoupled(tx, a.Si.Session.PersonID, &a.Si.Person, n.Provider.ID, now); err != nil {
				return err
			}
			return s.events.Append(tx, a.Si.OwnEvent(ev[0], "by "+n.Provider.Name))
		})
	}
	switch {
	case err == nil:
		s.front.Redirect(w, r, front.DoneURL(identitiesPath, "connected"))
	case errors.Is(err, person.ErrCoupled), errors.Is(err, person.ErrCoupledOther):
		s.log.Info("identity not coupled", zap.String("person_id", a.Si.Session.PersonID), zap.String("provider", n.Provider.ID), zap.NamedError("cause", err))
		s.identitiesPage(w, r, a, list, http.StatusConflict, "problem.accounts_taken")
	case errors.Is(err, federation.ErrUsed), errors.Is(err, person.ErrMismatch):
		s.pages.Error(w, r, http.StatusBadRequest, "error.expired", identitiesPath)
	default:
		s.front.Fail(w, r, err, identitiesPath)
	}
}

// useUp makes the answer of a provider good for nothing more, or returns federation.ErrUsed.
func useUp(tx storage.Tx, n *federation.Answer) error {
	key := secret.Hash(n.Name)
	rec, err := federation.ProviderFlows.Get(tx, key)
	if errors.Is(err, storage.ErrNotFound) || err == nil && rec.Identity == nil {
		return federation.ErrUsed
	}
	if err != nil {
		return err
	}
	return federation.ProviderFlows.Delete(tx, key)
}

// disconnect takes the identities at a provider off a person who has another way in. Other sessions that came from there end.
func (s *Service) disconnect(w http.ResponseWriter, r *http.Request, a *front.Visit, list []person.CoupledIdentity, id string) {
	ev, err := s.person.NewEvents(s.origin(r), identityUncoupled)
	personID, now := a.Si.Session.PersonID, s.now()
	if err == nil {
		err = s.store.Update(r.Context(), func(tx storage.Tx) error {
			if _, err := s.stepup.MaySetUp(tx, a.Si); err != nil {
				return err
			}
			have, err := person.CoupledIdentities(tx, personID)
			if err != nil {
				return err
			}
			rest := slices.DeleteFunc(slices.Clone(have), func(c person.CoupledIdentity) bool { return c.Provider == id })
			if len(rest) == len(have) {
				return person.ErrMismatch // gone already
			}
			set, err := stepup.ReadPasskeys(tx, personID)
			if err != nil {
				return err
			}
			if ok, err := s.stepup.HasWayIn(tx, a.U, personID, &a.Si.Person, rest, set.Usable()); err != nil || !ok {
				return cmp.Or(err, stepup.ErrLastWay)
			}
			for _, c := range have {
				if c.Provider != id {
					continue
				}
				if err := person.Identities.Delete(tx, c.Key); err != nil {
					return err
				}
				if err := person.IdentitiesOf.Delete(tx, storage.Key(personID, c.Provider, c.Key)); err != nil {
					return err
				}
			}
			if err := s.endOfProvider(tx, a, id, now); err != nil {
				return err
			}
			return s.events.Append(tx, a.Si.OwnEvent(ev[0], "from "+s.federation.ProviderName(id)))
		})
	}
	switch {
	case err == nil:
		s.front.Redirect(w, r, front.DoneURL(identitiesPath, "disconnected"))
	case errors.Is(err, stepup.ErrLastWay):
		s.identitiesPage(w, r, a, list, http.StatusConflict, "problem.last_way")
	case errors.Is(err, person.ErrMismatch):
		s.front.Redirect(w, r, identitiesPath)
	default:
		s.front.Fail(w, r, err, identitiesPath)
	}
}

// endOfProvider ends the sessions of a person that a provider has opened, but for the one that asks.
func (s *Service) endOfProvider(tx storage.Tx, a *front.Visit, id string, now time.Time) error {
	list, err := s.session.OpenSessions(tx, a.Si.Session.PersonID, a.Si.Session.Epoch, now)
	if err != nil {
		return err
	}
	for _, o := range list {
		if o.Rec.Provider == id && o.ID != a.Si.ID {
			if err := s.session.End(tx, o.ID, o.Rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// IsOwnCoupling tells whether the answer of a provider is for the account page that couples it.
func IsOwnCoupling(a *federation.Answer) bool { return a.Flow.Couple != "" }

// Unlinked tells the organisation of an application that a person has taken back what they had given to it, if it wants to know. It hears nothing of
// the person but the subject by which the application knows them. authz calls it in the transaction in which it happens.
func (s *Service) Unlinked(tx storage.Tx, u login.Unlinked) error {
	if s.notify == nil {
		return nil
	}
	units, err := s.units(tx)
	if err != nil {
		return err
	}
	o := units.OrganisationOf(u.ClientID)
	if o == nil || !o.NotifyWhenUserDoesUnlinkAccount || o.SupportEmail == "" {
		return nil
	}
	wait, err := s.proof.CountRequest(tx, "unlinked", storage.Key(u.Person, u.ClientID), person.UnlinkedPerPerson, u.At)
	if err != nil {
		return err
	}
	if wait > 0 {
		s.log.Info("organisation not told of a withdrawal: too many", zap.String("person_id", u.Person), zap.String("client_id", u.ClientID))
		return nil
	}
	n := federation.NoticeTo(o, notify.AccountUnlinked, u.At)
	n.PersonID, n.Data = u.Person, map[string]string{"application": u.Client, "subject": u.Subject}
	return s.person.SendNotice(tx, n)
}

package identity

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const identitiesPath = securityPath + "/accounts"

// coupled is an identity at a provider that signs a person in.
type coupled struct {
	provider, key string
	rec           identityRecord
}

// coupledOf returns the identities of a person, sorted by provider.
func coupledOf(tx storage.Tx, personID string) (out []coupled, err error) {
	for e, err := range identitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return nil, err
		}
		parts := storage.Parts(e.Key)
		rec, err := identities.Get(tx, parts[2])
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, coupled{parts[1], parts[2], rec})
	}
	return out, nil
}

// identitiesSection names the accounts elsewhere that sign the person in.
func (s *Service) identitiesSection(tx storage.Tx, si *signedIn, _ *standing) (*page.SecuritySection, error) {
	list, err := coupledOf(tx, si.session.PersonID)
	if err != nil || len(list) == 0 && len(s.connectable()) == 0 {
		return nil, err
	}
	out := &page.SecuritySection{Key: "accounts", State: "off", Actions: []page.SecurityAction{{Label: "security.accounts.manage", URL: identitiesPath}}}
	for _, c := range list {
		out.State = "on"
		out.Items = append(out.Items, page.Row{Icon: "check", Name: s.providerName(c.provider)})
	}
	return out, nil
}

// connectable are the providers that there were last and that browsers are sent to.
func (s *Service) connectable() (out []*registered) {
	g := s.managed.Load()
	if g == nil {
		g = s.fixed
	}
	for _, id := range g.order {
		if p := g.get(id); p != nil && p.redirector != nil {
			out = append(out, p)
		}
	}
	return out
}

// ownIdentities returns who may couple and uncouple their own account, which is a way in: it needs what setting up a method does. Otherwise it has
// written the answer and is not ok.
func (s *Service) ownIdentities(w http.ResponseWriter, r *http.Request) (a *onAccount, list []coupled, ok bool) {
	if _, _, ok = s.requireSetUp(w, r, identitiesPath); !ok {
		return nil, nil, false
	}
	if a, ok = s.guard(w, r, identitiesPath); !ok {
		return nil, nil, false
	}
	err := s.Store.View(r.Context(), func(tx storage.Tx) (err error) {
		list, err = coupledOf(tx, a.si.session.PersonID)
		return err
	})
	if err == nil {
		_, err = s.providers(r.Context()) // so that those are known that have come meanwhile
	}
	if err != nil {
		s.fail(w, r, err, identitiesPath)
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

func (s *Service) identitiesPage(w http.ResponseWriter, r *http.Request, a *onAccount, list []coupled, status int, problem string) {
	action := func(label, do, id string) []page.Action {
		return []page.Action{{Label: label, URL: identitiesPath, CSRF: a.csrf, Fields: []page.Hidden{{Name: "do", Value: do}, {Name: "provider", Value: id}}}}
	}
	have, more := page.Part{Empty: "accounts.none"}, page.Part{ID: "more", Title: page.Say("accounts.more")}
	for _, c := range list {
		row := page.Row{Icon: "check", Name: s.providerName(c.provider), Actions: action("accounts.disconnect", "disconnect", c.provider)}
		if !c.rec.Since.IsZero() {
			row.Details = []page.Text{page.Say("accounts.since", "time", c.rec.Since)}
		}
		have.Rows = append(have.Rows, row)
	}
	for _, p := range s.connectable() {
		if a.mayCouple(list) && !slices.ContainsFunc(list, func(c coupled) bool { return c.provider == p.ID }) {
			more.Rows = append(more.Rows, page.Row{Icon: "key", Name: p.Name, Actions: action("accounts.connect", "connect", p.ID)})
		}
	}
	d := page.Dashboard{Key: "accounts", Problem: problem, Parts: []page.Part{have}}
	if len(more.Rows) > 0 {
		d.Parts = append(d.Parts, more)
	}
	s.accountPage(w, r, a, status, d)
}

// mayCouple tells whether the person may have one account more elsewhere.
func (a *onAccount) mayCouple(list []coupled) bool {
	return len(list) == 0 || a.u.Features.BindMultipleExternalAccountsWithOneCIMAccount
}

// handleIdentities serves POST /account/security/accounts: the way to a provider whose account is to sign the person in, or the end of one that does.
func (s *Service) handleIdentities(w http.ResponseWriter, r *http.Request) {
	a, list, ok := s.ownIdentities(w, r)
	if !ok || !s.checkSecurityForm(w, r, a.si, identitiesPath, identitiesPath) {
		return
	}
	id := r.PostForm.Get("provider")
	if r.PostForm.Get("do") == "disconnect" {
		s.disconnect(w, r, a, list, id)
		return
	}
	i := slices.IndexFunc(s.connectable(), func(p *registered) bool { return p.ID == id })
	if r.PostForm.Get("do") != "connect" || i < 0 || !a.mayCouple(list) || slices.ContainsFunc(list, func(c coupled) bool { return c.provider == id }) {
		s.redirect(w, r, identitiesPath)
		return
	}
	flow, err := s.newCoupling(w, r, login.Demand{MaxAge: -1, Provider: id, Return: identitiesPath, Cancel: identitiesPath, Locales: a.si.locales()}, a.si.id)
	if err != nil {
		s.fail(w, r, err, identitiesPath)
		return
	}
	s.redirect(w, r, providerURL(flow, id)+"&hop=1")
}

// newCoupling is newFlow for an identity that is to sign in the person of a session from now on.
func (s *Service) newCoupling(w http.ResponseWriter, r *http.Request, d login.Demand, session string) (string, error) {
	id, err := s.newFlow(w, r, d)
	if err != nil {
		return "", err
	}
	return id, s.Store.Update(r.Context(), func(tx storage.Tx) error {
		f, err := flows.Get(tx, id)
		if err != nil {
			return err
		}
		f.Couple = session
		return flows.Put(tx, id, f, f.ExpiresAt.Add(flowMemory))
	})
}

// coupleOwn couples the identity of an answer with the person who has asked for it on the account page. Nobody is signed in by it.
func (s *Service) coupleOwn(w http.ResponseWriter, r *http.Request, n *answered) {
	a, list, ok := s.ownIdentities(w, r)
	if !ok {
		return
	}
	if a.si.id != n.flow.Couple { // another person's, or of another sign-in
		s.Pages.Error(w, r, http.StatusForbidden, "error.forbidden", identitiesPath)
		return
	}
	ev, err := s.newEvents(s.Origin(r), identityCoupled)
	now := s.Now()
	if err == nil {
		err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
			if _, err := s.maySetUp(tx, a.si); err != nil {
				return err
			}
			have, err := coupledOf(tx, a.si.session.PersonID)
			if err != nil {
				return err
			}
			if !a.mayCouple(have) {
				return ErrCoupledOther
			}
			if err := useUp(tx, n); err != nil {
				return err
			}
			known, err := identities.Has(tx, n.key())
			if err != nil {
				return err
			}
			if err := s.couple(tx, n.provider.ID, n.identity, a.si.session.PersonID, now); err != nil || known {
				return err
			}
			if err := s.tellCoupled(tx, a.si.session.PersonID, &a.si.person, n.provider.ID, now); err != nil {
				return err
			}
			return s.Events.Append(tx, a.si.own(ev[0], "by "+n.provider.Name))
		})
	}
	switch {
	case err == nil:
		s.redirect(w, r, doneURL(identitiesPath, "connected"))
	case errors.Is(err, ErrCoupled), errors.Is(err, ErrCoupledOther):
		s.Log.Info("identity not coupled", zap.String("person_id", a.si.session.PersonID), zap.String("provider", n.provider.ID), zap.NamedError("cause", err))
		s.identitiesPage(w, r, a, list, http.StatusConflict, "problem.accounts_taken")
	case errors.Is(err, errUsed), errors.Is(err, errMismatch):
		s.Pages.Error(w, r, http.StatusBadRequest, "error.expired", identitiesPath)
	default:
		s.fail(w, r, err, identitiesPath)
	}
}

// useUp makes the answer of a provider good for nothing more, or returns errUsed.
func useUp(tx storage.Tx, n *answered) error {
	key := secret.Hash(n.name)
	rec, err := providerFlows.Get(tx, key)
	if errors.Is(err, storage.ErrNotFound) || err == nil && rec.Identity == nil {
		return errUsed
	}
	if err != nil {
		return err
	}
	return providerFlows.Delete(tx, key)
}

// disconnect takes the identities at a provider off a person who has another way in. Other sessions that came from there end.
func (s *Service) disconnect(w http.ResponseWriter, r *http.Request, a *onAccount, list []coupled, id string) {
	ev, err := s.newEvents(s.Origin(r), identityUncoupled)
	person, now := a.si.session.PersonID, s.Now()
	if err == nil {
		err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
			if _, err := s.maySetUp(tx, a.si); err != nil {
				return err
			}
			have, err := coupledOf(tx, person)
			if err != nil {
				return err
			}
			rest := slices.DeleteFunc(slices.Clone(have), func(c coupled) bool { return c.provider == id })
			if len(rest) == len(have) {
				return errMismatch // gone already
			}
			set, err := readPasskeys(tx, person)
			if err != nil {
				return err
			}
			if ok, err := s.hasWayIn(tx, a.u, person, &a.si.person, rest, set.usable()); err != nil || !ok {
				return cmpErr(err, errLastWay)
			}
			for _, c := range have {
				if c.provider != id {
					continue
				}
				if err := identities.Delete(tx, c.key); err != nil {
					return err
				}
				if err := identitiesOf.Delete(tx, storage.Key(person, c.provider, c.key)); err != nil {
					return err
				}
			}
			if err := s.endOfProvider(tx, a, id, now); err != nil {
				return err
			}
			return s.Events.Append(tx, a.si.own(ev[0], "from "+s.providerName(id)))
		})
	}
	switch {
	case err == nil:
		s.redirect(w, r, doneURL(identitiesPath, "disconnected"))
	case errors.Is(err, errLastWay):
		s.identitiesPage(w, r, a, list, http.StatusConflict, "problem.last_way")
	case errors.Is(err, errMismatch):
		s.redirect(w, r, identitiesPath)
	default:
		s.fail(w, r, err, identitiesPath)
	}
}

// hasWayIn tells whether a person can sign in by one of these identities, one of these passkeys, or a password.
func (s *Service) hasWayIn(tx storage.Tx, u *config.Units, person string, rec *personRecord, left []coupled, keys []passkeyRecord) (bool, error) {
	if rec.External != "" {
		return true, nil
	}
	for _, p := range s.connectable() {
		if slices.ContainsFunc(left, func(c coupled) bool { return c.provider == p.ID }) {
			return true, nil
		}
	}
	if !u.PasswordLogin() {
		return false, nil // passkeys sign in where passwords do
	}
	if s.hasPasskeys() && len(keys) > 0 {
		return true, nil
	}
	return passwords.Has(tx, person)
}

// endOfProvider ends the sessions of a person that a provider has opened, but for the one that asks.
func (s *Service) endOfProvider(tx storage.Tx, a *onAccount, id string, now time.Time) error {
	list, err := s.openSessions(tx, a.si.session.PersonID, a.si.session.Epoch, now)
	if err != nil {
		return err
	}
	for _, o := range list {
		if o.rec.Provider == id && o.id != a.si.id {
			if err := s.end(tx, o.id, o.rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// isOwnCoupling tells whether the answer of a provider is for the account page that couples it.
func isOwnCoupling(a *answered) bool { return a.flow.Couple != "" }

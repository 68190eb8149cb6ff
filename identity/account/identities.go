package account

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const identitiesPath = webflow.SecurityPath + "/accounts"

// IdentitiesSection is the part of the security page about accounts at identity providers that sign the person in.
func (s *Service) IdentitiesSection(tx storage.Tx, q *webflow.Request, _ *mfa.Standing) (*web.SecuritySection, error) {
	list, err := person.CoupledIdentities(tx, q.SignIn.Session.PersonID)
	if err != nil || len(list) == 0 && len(s.deps.Federation.Connectable()) == 0 {
		return nil, err
	}
	out := &web.SecuritySection{
		Key: "accounts", State: "off",
		Actions: []web.SecurityAction{{Label: "security.accounts.manage", URL: identitiesPath}},
	}
	for _, c := range list {
		out.State = "on"
		out.Items = append(out.Items, web.Row{Icon: "check", Name: s.deps.Federation.ProviderName(c.Provider)})
	}
	return out, nil
}

// identityList has the accounts at identity providers that sign a person in.
type identityList []person.Identity

func (l identityList) has(provider string) bool {
	return slices.ContainsFunc(l, func(c person.Identity) bool { return c.Provider == provider })
}

// allowsMore reports whether the settings allow the person one more account.
func (l identityList) allowsMore(u *settings.Units) bool {
	return len(l) == 0 || u.Features.BindMultipleExternalAccountsWithOneCIMAccount
}

// visitIdentities admits a person who can connect and disconnect accounts at identity providers. Such an account is a
// way to sign in, so it needs the level of setting up a method.
func (s *Service) visitIdentities(q *webflow.Request, admit guard) (a *webflow.Visit, list identityList, err error) {
	a, err = s.visit(q, admit, identitiesPath, func(tx storage.Tx, st *mfa.Standing) (_ int, err error) {
		list, err = person.CoupledIdentities(tx, q.SignIn.Session.PersonID)
		return max(st.SetUpLevel(), s.deps.Person.LinkLevel(&q.SignIn.Person)), err
	})
	if err == nil {
		_, err = s.deps.Federation.Registry(q.Context(), q.Settings) // so Connectable knows providers that were added since
	}
	return a, list, err
}

// showIdentities serves GET /account/security/accounts.
func (s *Service) showIdentities(q *webflow.Request) error {
	a, list, err := s.visitIdentities(q, s.deps.Front.VisitOf)
	if err != nil {
		return err
	}
	return s.renderIdentities(a, list, http.StatusOK, "")
}

func (s *Service) renderIdentities(a *webflow.Visit, list identityList, status int, problem string) error {
	action := func(label, do, id string) []web.Action {
		return []web.Action{{
			Label: label, URL: identitiesPath, CSRF: a.CSRF,
			Fields: []web.Hidden{{Name: "do", Value: do}, {Name: "provider", Value: id}},
		}}
	}
	have, more := web.Part{Empty: "accounts.none"}, web.Part{ID: "more", Title: web.Say("accounts.more")}
	logos := s.deps.Pages.ProviderLogos(a.Context())
	for _, c := range list {
		row := web.Row{
			Icon: "check", Logo: logos[c.Provider], Name: s.deps.Federation.ProviderName(c.Provider),
			Actions: action("accounts.disconnect", "disconnect", c.Provider),
		}
		row.Actions[0].Danger = true
		if !c.Record.Since.IsZero() {
			row.Details = []web.Text{web.Say("accounts.since", "time", c.Record.Since)}
		}
		have.Rows = append(have.Rows, row)
	}
	for _, p := range s.deps.Federation.Connectable() {
		if list.allowsMore(a.Settings) && !list.has(p.ID) {
			more.Rows = append(more.Rows, web.Row{
				Icon: "key", Logo: logos[p.ID], Name: p.Name, Actions: action("accounts.connect", "connect", p.ID),
			})
		}
	}
	d := web.Dashboard{Key: "accounts", Problem: problem, Parts: []web.Part{have}}
	if len(more.Rows) > 0 {
		d.Parts = append(d.Parts, more)
	}
	return s.render(a, status, d)
}

// handleIdentities serves POST /account/security/accounts: it leads to a provider to connect an account there, or
// disconnects one.
func (s *Service) handleIdentities(q *webflow.Request) error {
	a, list, err := s.visitIdentities(q, s.deps.Front.VisitPost)
	if err != nil {
		return err
	}
	id, do := q.PostForm.Get("provider"), q.PostForm.Get("do")
	known := slices.ContainsFunc(s.deps.Federation.Connectable(), func(p *federation.Member) bool { return p.ID == id })
	switch {
	case do == "disconnect":
		return s.disconnect(a, list, id)
	case do != "connect" || !known || !list.allowsMore(a.Settings) || list.has(id):
		return q.Redirect(identitiesPath)
	}
	d := authn.Demand{MaxAge: -1, Provider: id, Return: identitiesPath, Cancel: identitiesPath, Locales: a.SignIn.Locales()}
	flow, err := s.deps.Front.NewFlow(q.W, q.Request, d)
	if err != nil {
		return err
	}
	if err := s.deps.Front.ChangeFlow(q.Context(), flow, func(f *webflow.FlowRecord) { f.Couple = a.SignIn.ID }); err != nil {
		return err
	}
	return q.Redirect(federation.ProviderURL(flow, id) + "&hop=1")
}

// IsOwnCoupling reports whether the answer of a provider is for CoupleOwn.
func IsOwnCoupling(n *federation.Answer) bool { return n.Flow.Couple != "" }

// CoupleOwn connects the identity of a provider's answer to the person who has requested it on the account page. It
// signs no one in.
func (s *Service) CoupleOwn(q *webflow.Request, n *federation.Answer) error {
	a, list, err := s.visitIdentities(q, s.deps.Front.VisitOf)
	if err != nil {
		return err
	}
	if a.SignIn.ID != n.Flow.Couple { // requested by another person, or in another session
		return &webflow.Answer{Status: http.StatusForbidden, Key: "error.forbidden", Again: identitiesPath}
	}
	err = s.coupleAnswer(a, n)
	switch {
	case errors.Is(err, person.ErrCoupled), errors.Is(err, person.ErrCoupledOther):
		s.deps.Front.Refuse(a.Request, denial.Refusal{Reason: denial.IdentityRefused, Provider: n.Provider.ID}, err)
		return s.renderIdentities(a, list, http.StatusConflict, "problem.accounts_taken")
	case errors.Is(err, federation.ErrUsed), errors.Is(err, person.ErrMismatch):
		return &webflow.Answer{Status: http.StatusBadRequest, Key: "error.expired", Again: identitiesPath}
	case err != nil:
		return err
	}
	return q.Redirect(doneURL(identitiesPath, "connected"))
}

// changeIdentities makes a change of the accounts at identity providers and records it, with the reason that change
// returns ("": no event). person.ErrMismatch: the session is no longer allowed to.
func (s *Service) changeIdentities(a *webflow.Visit, kind audit.Type,
	change func(tx storage.Tx, have identityList, now time.Time) (reason string, err error),
) error {
	ev, err := s.deps.Person.NewEvents(s.originOf(a), kind)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	return s.deps.Store.Update(a.Context(), func(tx storage.Tx) error {
		if _, err := s.deps.StepUp.CheckSetUp(tx, a.SignIn, now); err != nil {
			return err
		}
		if open, err := s.deps.Session.Live(tx, a.SignIn.ID, now); err != nil || open.Level < s.deps.Person.LinkLevel(&a.SignIn.Person) {
			return cmp.Or(err, person.ErrMismatch)
		}
		have, err := person.CoupledIdentities(tx, a.SignIn.Session.PersonID)
		if err != nil {
			return err
		}
		reason, err := change(tx, have, now)
		if err != nil || reason == "" {
			return err
		}
		return s.deps.Events.Append(tx, a.SignIn.OwnEvent(ev[0], reason))
	})
}

// coupleAnswer uses up the answer and stores its identity.
func (s *Service) coupleAnswer(a *webflow.Visit, n *federation.Answer) error {
	personID := a.SignIn.Session.PersonID
	return s.changeIdentities(a, federation.IdentityCoupled, func(tx storage.Tx, have identityList, now time.Time) (string, error) {
		if !have.allowsMore(a.Settings) {
			return "", person.ErrCoupledOther
		}
		if err := federation.TakeAnswer(tx, n); err != nil {
			return "", err
		}
		known, err := person.Identities.Has(tx, n.Key())
		if err != nil {
			return "", err
		}
		if err := s.deps.Person.CoupleProved(tx, n.Provider.ID, n.Identity, personID, now); err != nil {
			return "", err
		}
		if vouched := a.SignIn.Session.Vouched; !known || !vouched { // their own session proves an older link
			err = person.NoteVouched(tx, n.Provider.ID, n.Identity, vouched)
		}
		if err != nil || known {
			return "", err
		}
		return "by " + n.Provider.Name, s.deps.Person.TellCoupled(tx, personID, &a.SignIn.Person, n.Provider.ID, n.Identity, now)
	})
}

// disconnect removes the identities at a provider from a person who has another way to sign in.
func (s *Service) disconnect(a *webflow.Visit, list identityList, provider string) error {
	err := s.uncouple(a, provider)
	switch {
	case errors.Is(err, mfa.ErrLastWay):
		return s.renderIdentities(a, list, http.StatusConflict, "problem.last_way")
	case errors.Is(err, person.ErrMismatch):
		return a.Redirect(identitiesPath)
	case err != nil:
		return err
	}
	return a.Redirect(doneURL(identitiesPath, "disconnected"))
}

// uncouple removes the identities and ends the other sessions that the provider has opened.
func (s *Service) uncouple(a *webflow.Visit, provider string) error {
	personID := a.SignIn.Session.PersonID
	return s.changeIdentities(a, identityUncoupled, func(tx storage.Tx, have identityList, _ time.Time) (string, error) {
		if err := s.unlink(tx, a.Settings, personID, &a.SignIn.Person, have, provider); err != nil {
			return "", err
		}
		_, err := s.endSessions(tx, a, func(o session.Session) bool { return o.Record.Provider == provider })
		return "from " + s.deps.Federation.ProviderName(provider), err
	})
}

// unlink removes the identities of a person at a provider. Errors: person.ErrMismatch if there are none,
// mfa.ErrLastWay.
func (s *Service) unlink(tx storage.Tx, u *settings.Units, personID string, rec *person.Record, have identityList, provider string) error {
	if !have.has(provider) { // disconnected already
		return person.ErrMismatch
	}
	rest := slices.DeleteFunc(slices.Clone(have), func(c person.Identity) bool { return c.Provider == provider })
	set, err := passkey.Read(tx, personID)
	if err != nil {
		return err
	}
	if ok, err := s.deps.StepUp.HasWayIn(tx, u, personID, rec, rest, set.Usable()); err != nil || !ok {
		return cmp.Or(err, mfa.ErrLastWay)
	}
	for _, c := range have {
		if c.Provider != provider {
			continue
		}
		if err := person.Uncouple(tx, personID, c.Provider, c.Key); err != nil {
			return err
		}
	}
	return federation.Disown(tx, personID, provider)
}

// Unlink removes the identities of a person at a provider, for someone else who is allowed to, and ends the sessions
// that the provider has opened. Errors: person.ErrNoPerson, person.ErrMismatch if there are none, mfa.ErrLastWay.
func (s *Service) Unlink(ctx context.Context, personID, provider string, by audit.Actor) error {
	u, err := s.deps.Person.Settings(ctx)
	if err == nil {
		_, err = s.deps.Federation.Registry(ctx, u) // so Connectable knows providers that were added since
	}
	if err != nil {
		return err
	}
	ev, err := s.deps.Person.NewEvents(by.Origin, identityUncoupled)
	if err != nil {
		return err
	}
	name := s.deps.Federation.ProviderName(provider)
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		id, rec, err := s.deps.Person.Find(tx, personID)
		if err != nil {
			return err
		}
		have, err := person.CoupledIdentities(tx, id)
		if err != nil {
			return err
		}
		if err := s.unlink(tx, u, id, &rec, have, provider); err != nil {
			return err
		}
		open, err := session.Stored(tx, id)
		if err != nil {
			return err
		}
		for _, o := range open {
			if o.Record.Provider != provider {
				continue
			}
			if err := s.deps.Session.End(tx, o.ID, o.Record); err != nil {
				return err
			}
		}
		return s.deps.Events.Append(tx, by.Fill(ev[0], id, "from "+name))
	})
}

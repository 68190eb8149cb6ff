package federation

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// checkNetwork refuses a browser at an address that the provider does not serve. The address is the one that events
// have: that of the peer, or what a proxy says that the operator trusts.
func (s *Service) checkNetwork(q *webflow.Request, p *Member, ways *Ways) error {
	addr, _ := netip.ParseAddr(s.deps.Origin(q.Request).ClientIP)
	if p.Serves(addr) {
		return nil
	}
	s.deps.Front.Refuse(q, denial.Refusal{
		Where: denial.SignIn, Reason: denial.ProviderNotOffered, By: "provider", Provider: p.ID,
		Detail: "not from this address",
	}, nil)
	answer := &webflow.Answer{Status: http.StatusForbidden, Key: "error.network"}
	if !ways.Alone() {
		answer.Again = q.Again + "&choose=1"
	}
	return answer
}

// passwordForm names the form of a password for a provider.
func (x *exchange) passwordForm() string {
	return "provider_password:" + x.SignIn + ":" + x.Provider.ID
}

// askPassword writes the form for a password of the provider.
func (s *Service) askPassword(q *webflow.Request, x *exchange, ways *Ways) error {
	if x.Flow.Demand.Passive {
		return s.refuse(q, x.Flow, &authn.Refusal{Code: "login_required", Reason: "the person has to type a password"})
	}
	username := ""
	if x.Flow.Typed == "" || ways.ByUsername(x.Flow.Typed) == x.Provider {
		username = x.Flow.Username()
	}
	return s.passwordPage(q, x, ways, http.StatusOK, username, web.Form{})
}

func (s *Service) passwordPage(q *webflow.Request, x *exchange, ways *Ways, status int, username string, f web.Form) (err error) {
	if !person.IsText(username, person.MaxUsername) {
		username = ""
	}
	f.Key, f.Fill, f.Action = "directory", []any{"provider", x.Provider.Name}, ProviderURL(x.SignIn, x.Provider.ID)
	f.Fields, f.Cancel = web.Credentials(username, f.Problem), web.LocalPath(x.Flow.Demand.Cancel)
	if !ways.Alone() && x.Flow.Couple == "" {
		f.Links = []web.FormLink{{Label: "trouble.other", URL: x.chooseURL()}}
	}
	if f.CSRF, err = s.deps.Front.FormToken(q, x.passwordForm()); err != nil {
		return err
	}
	s.deps.Pages.Render(q.W, q.Request, s.deps.Front.View(x.Flow.Demand, "form", status, f))
	return nil
}

// typed is a password that was typed for a provider.
type typed struct {
	*exchange

	username, password string
	origin             audit.Origin
	device             string
	holder             person.Holder     // of the account. Empty: no person here has it
	attempt            challenge.Attempt // without counters: none was counted
}

// errWait says that no attempt is accepted for now.
var errWait = errors.New("too many tries")

// handlePassword serves POST /sign-in/provider?flow=…&idp=…: the provider checks the password.
func (s *Service) handlePassword(q *webflow.Request) error {
	x, ways, err := s.exchangeIn(q)
	if err != nil {
		return err
	}
	if x.Provider.taker == nil {
		q.W.Header().Set("Allow", "GET, HEAD")
		return &webflow.Answer{Status: http.StatusMethodNotAllowed, Key: "error.method"}
	}
	if err := s.deps.Front.CheckForm(q, x.passwordForm(), ProviderURL(x.SignIn, x.Provider.ID)); err != nil {
		return err
	}
	t := &typed{
		exchange: x, username: strings.TrimSpace(q.PostForm.Get("username")), password: q.PostForm.Get("password"),
		origin: s.deps.Origin(q.Request),
		device: s.deps.Session.DeviceToken(q.Request),
	}
	problem := func(status int, key string) error {
		return s.passwordPage(q, x, ways, status, t.username, web.Form{Problem: key})
	}
	switch {
	case t.username == "":
		return problem(http.StatusUnprocessableEntity, "problem.username")
	case t.password == "":
		return problem(http.StatusUnprocessableEntity, "problem.password")
	case !s.deps.Admit(q.Request, 0):
		return webflow.ErrTooMany
	}
	id, err := s.checkTyped(q.Context(), t)
	rejection := new(idp.Rejection)
	switch {
	case err == nil:
		return s.arrive(q, t, id)
	case errors.Is(err, errWait):
		s.refuseTyped(q, t, denial.Throttled, nil)
		wait := webflow.RetryAfter(q.W, t.attempt.Wait)
		return s.passwordPage(q, x, ways, http.StatusTooManyRequests, t.username, web.Form{Problem: "problem.wait", Wait: wait})
	case errors.Is(err, idp.ErrCredentials):
		s.refuseTyped(q, t, denial.WrongPassword, err)
		t.attempt.Provider = x.Provider.ID
		if err := s.deps.Proof.Failed(q.Context(), x.Flow.Demand.Client.ID, t.holder, t.attempt, t.origin); err != nil {
			return err
		}
		return problem(http.StatusUnprocessableEntity, "problem.mismatch")
	case errors.As(err, &rejection):
		s.notTried(q.Context(), t)
		s.refuseTyped(q, t, denial.ProviderRefused, err)
		s.RecordFailure(q.Request, x.Flow.Demand.Client.ID, x.Provider.ID, t.holder.ID, "refused by "+x.Provider.Name+": "+rejection.Reason)
		if rejection.Password {
			return problem(http.StatusForbidden, "problem.directory_password")
		}
		return problem(http.StatusForbidden, "problem.directory_account")
	}
	s.notTried(q.Context(), t)
	if isStorageError(err) {
		return err
	}
	return s.providerFailed(q, x, &providerError{err})
}

// refuseTyped records why a password signs no one in.
func (s *Service) refuseTyped(q *webflow.Request, t *typed, reason denial.Reason, cause error) {
	why := denial.Refusal{Where: denial.SignIn, Reason: reason, By: "provider", Provider: t.Provider.ID, ClientID: t.Flow.Demand.Client.ID}
	if t.holder.ID != "" {
		why = challenge.About(why, t.holder)
	}
	s.deps.Front.Refuse(q, why, cause)
}

// notTried takes back an attempt that was no guess.
func (s *Service) notTried(ctx context.Context, t *typed) {
	if len(t.attempt.Counters) > 0 {
		s.deps.Proof.NotEvaluated(context.WithoutCancel(ctx), t.attempt)
	}
}

// checkTyped has the provider check the password. The attempt is counted for the account that the provider finds,
// together with those at the account's own password: however a name is spelled, it has no more tries.
func (s *Service) checkTyped(ctx context.Context, t *typed) (*idp.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, t.Provider.Timeout)
	defer cancel()
	var failed error // ours, not the provider's
	id, err := t.Provider.taker.SignIn(ctx, idp.Credentials{Username: t.username, Password: t.password, Found: func(account string) error {
		failed = s.countTyped(ctx, t, account)
		return failed
	}})
	switch {
	case failed != nil:
		return nil, failed
	case err != nil:
		return nil, err
	}
	id.AuthTime = s.deps.Now()
	return s.acceptable(id)
}

// countTyped counts an attempt. errWait.
func (s *Service) countTyped(ctx context.Context, t *typed, account string) error {
	name := t.username
	if account != "" {
		name = t.Provider.ID + "\x00" + account
		err := s.deps.Store.View(ctx, func(tx storage.Tx) (err error) {
			t.holder, err = holderOf(tx, t.Provider.ID, account)
			return err
		})
		if err != nil {
			return err
		}
	}
	at, err := s.deps.Proof.BeginAttempt(ctx, t.holder, name, challenge.Source{Address: t.origin.ClientIP, Device: challenge.Hashed(t.device)})
	if err != nil {
		return err
	}
	if t.attempt = at; at.Wait > 0 {
		return errWait
	}
	return nil
}

// holderOf returns the person of an account at a provider, or an empty Holder.
func holderOf(tx storage.Tx, providerID, account string) (h person.Holder, err error) {
	id := &idp.Identity{Subject: account}
	for _, key := range []string{person.IdentityKey(providerID, id), person.CoupledKey(providerID, id)} {
		known, found, err := person.Identities.Find(tx, key)
		if err != nil {
			return h, err
		}
		if found {
			h.ID = known.PersonID
			h.Person, err = person.Records.Get(tx, h.ID)
			return h, err
		}
	}
	return h, nil
}

// arrive stores the identity, as an answer that a provider has given, and sends the browser on.
func (s *Service) arrive(q *webflow.Request, t *typed, id *idp.Identity) error {
	name, err := secret.ID(s.deps.Random, flowNameBytes)
	if err != nil {
		return err
	}
	tracker, err := s.tracker(q.W, q.Request)
	if err != nil {
		return err
	}
	a := &Answer{exchange: *t.exchange, Name: name}
	raw, err := cbor.Marshal(id)
	if err != nil {
		return err
	}
	now, key := s.deps.Now(), a.key()
	rec := providerFlowRecord{
		Provider: t.Provider.ID, SignIn: t.SignIn, Tracker: secret.Hash(tracker), Answered: true, CreatedAt: now,
		ExpiresAt: now.Add(webflow.FlowLife),
	}
	if rec.Identity, err = s.Seal("identity", key, raw); err != nil {
		return err
	}
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		if err := s.deps.Proof.Undo(tx, t.attempt, true, now); err != nil {
			return err
		}
		return ProviderFlows.Create(tx, key, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	if err != nil {
		return err
	}
	return q.Redirect(a.Done())
}

// prepareTaker makes what a sign-in by a typed password needs in addition.
func (s *Service) prepareTaker(r *http.Request, p *Member, o *Opening) (err error) {
	if p.taker == nil {
		return nil
	}
	if o.device = s.deps.Session.DeviceToken(r); o.device == "" {
		if o.device, err = s.deps.Front.NewID(); err != nil {
			return err
		}
	}
	if len(p.taker.OwnGroups()) > 0 {
		o.groups, err = s.deps.Person.NewUpdate(r.Context(), person.Edit{By: audit.Actor{Origin: s.deps.Origin(r), Name: p.Name}})
	}
	return err
}

// bindTaker writes what follows from a typed password: strangers must not lock the person out of this browser, and
// their groups are those of the provider.
func (s *Service) bindTaker(tx storage.Tx, a *Answer, o *Opening, m *Match) error {
	if a.Provider.taker == nil {
		return nil
	}
	if err := a.setGroups(tx, o, m); err != nil {
		return err
	}
	return s.deps.Proof.RememberDevice(tx, m.ID, m.Person.Epoch, challenge.Hashed(o.device), o.Now)
}

// setGroups puts a person into the groups that their provider names, and takes them out of the others that belong to
// the provider. Groups that do not belong to it stay.
func (a *Answer) setGroups(tx storage.Tx, o *Opening, m *Match) error {
	if o.groups == nil {
		return nil
	}
	o.groups.By.ID = m.ID
	own, is := a.Provider.taker.OwnGroups(), a.Identity.Groups
	_, err := o.groups.Apply(tx, m.ID, func(_ storage.Tx, d *person.Details) error {
		d.Groups = slices.DeleteFunc(d.Groups, func(g string) bool { return slices.Contains(own, g) && !slices.Contains(is, g) })
		for _, g := range is {
			if slices.Contains(own, g) && !slices.Contains(d.Groups, g) {
				d.Groups = append(d.Groups, g)
			}
		}
		return nil
	})
	if err == nil {
		m.Person, err = person.Records.Get(tx, m.ID)
	}
	return err
}

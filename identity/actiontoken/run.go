package actiontoken

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// ActionResult is the result of one action.
type ActionResult struct {
	Type       string            `json:"type" rest:"required"`
	Status     string            `json:"execution_status,omitempty"`
	Parameters map[string]string `json:"parameters,omitempty"`
}

// ActionsDone is the result of an action token.
type ActionsDone struct {
	// Profile is absent for a person without an address: a Profile has at least one.
	Profile *person.Profile `json:"profile,omitempty"`
	Results []ActionResult  `json:"results"`
	// RedirectURI is the next destination of the person. After a LOGIN it is our page that signs them in.
	RedirectURI string `json:"redirect_uri,omitempty"`
}

// readToken returns a token that can be used, with its person. ErrNoToken: it is unknown, used, expired or
// of another partition ("": any partition); or its person was removed or has a new password; or the session that made
// it has ended, or all sessions have. A *person.StateError: the person is blocked. A *FeatureOffError: a feature that
// it needs is switched off.
func (s *Service) readToken(tx storage.Tx, hash, partition string, now time.Time) (rec Record, p person.Record, err error) {
	rec, err = tokens.Get(tx, hash)
	if err == nil {
		p, err = person.Records.Get(tx, rec.PersonID)
	}
	if errors.Is(err, storage.ErrNotFound) {
		return rec, p, ErrNoToken
	}
	if err != nil {
		return rec, p, err
	}
	if !rec.ExpiresAt.After(now) || p.State == person.Removed ||
		s.deps.Person.Partitioned() && partition != "" && partition != p.PartitionName() {
		return rec, p, ErrNoToken
	}
	u, err := s.deps.Units(tx)
	if err != nil {
		return rec, p, err
	}
	if off := rec.needs(&u.Features); off != "" {
		return rec, p, &FeatureOffError{off}
	}
	if p.State == person.Blocked {
		return rec, p, &person.StateError{State: p.State}
	}
	global, err := session.GlobalEpoch(tx)
	if err != nil {
		return rec, p, err
	}
	if p.Epoch != rec.Epoch || rec.Global != global {
		return rec, p, ErrNoToken
	}
	_, err = s.readMaker(tx, rec.Session, rec.PersonID, p.Epoch, now)
	return rec, p, err
}

// needs returns a feature that the token needs and that is switched off, or "".
func (r *Record) needs(f *settings.Features) string {
	for _, a := range r.Actions {
		switch {
		case a.Type == ActionLogin && (r.AppToWeb && !f.ActionToken.AppToWeb.Enabled):
			return FeatureAppToWeb
		case a.Type == ActionLogin && (!f.LoginEnabled || !r.AppToWeb && !f.ActionToken.Login.Enabled), r.Session != "" && !offersLinks(f):
			return FeatureLogin
		case (a.Type == ActionCouple || a.Type == ActionCoupleSession) && !f.ActionToken.Coupling.Enabled:
			return FeatureCoupling
		}
	}
	return ""
}

// Check returns nil if an action token can be used, otherwise ErrNoToken or a *FeatureOffError. It
// does not use the token up. partition "": any.
func (s *Service) Check(ctx context.Context, token, partition string) error {
	if !secret.IsToken(secret.ActionToken, token) {
		return ErrNoToken
	}
	now, hash := s.deps.Now(), secret.Hash(token)
	err := s.deps.Store.View(ctx, func(tx storage.Tx) error {
		_, _, err := s.readToken(tx, hash, partition, now)
		return err
	})
	if errors.As(err, new(*person.StateError)) {
		err = ErrNoToken
	}
	return err
}

// Process does all actions of a token and uses it up, or does nothing. partition "": any. Errors: those of
// readToken, and *FailedError.
func (s *Service) Process(ctx context.Context, token, partition string, by audit.Actor) (out ActionsDone, err error) {
	if !secret.IsToken(secret.ActionToken, token) {
		return out, ErrNoToken
	}
	known, registryErr := s.deps.Federation.Current(ctx)
	ticket, err := secret.NewToken(s.deps.Random, secret.SignInTicket)
	if err != nil {
		return out, err
	}
	ev, err := s.deps.Person.NewEvents(by.Origin, slices.Repeat([]audit.Type{federation.IdentityCoupled}, maxActions)...)
	if err != nil {
		return out, err
	}
	more, err := s.deps.Person.NewEvents(by.Origin, person.EventActivated, actionTokenUsed)
	if err != nil {
		return out, err
	}
	now, hash := s.deps.Now(), secret.Hash(token)
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		rec, p, err := s.readToken(tx, hash, partition, now)
		if err != nil {
			return err
		}
		run := &actionRun{
			Service: s, tx: tx, rec: rec, owner: p, known: known, registryErr: registryErr, ticket: ticket, by: by, now: now,
			coupled: ev, activated: more[0],
		}
		if out, err = run.all(); err != nil {
			return err
		}
		if err := tokens.Delete(tx, hash); err != nil {
			return err
		}
		if err := tokensOf.Delete(tx, storage.Key(rec.PersonID, rec.ID)); err != nil {
			return err
		}
		return run.record(more[1], actionTypes(rec.Actions))
	})
	if err != nil {
		return ActionsDone{}, err
	}
	return out, nil
}

// actionRun is one token in its transaction.
type actionRun struct {
	*Service

	tx          storage.Tx
	rec         Record
	owner       person.Record
	known       *federation.Registry
	registryErr error  // only actions that need a provider fail by it
	ticket      string // of the sign-in that a LOGIN makes
	by          audit.Actor
	now         time.Time
	coupled     []audit.Event // one for each action
	activated   audit.Event
}

// record appends an event about the person.
func (r *actionRun) record(e audit.Event, reason string) error {
	e = r.by.Fill(e, r.rec.PersonID, reason)
	e.Partition = r.owner.PartitionName()
	return r.deps.Events.Append(r.tx, e)
}

// all does the actions in their order, but LOGIN last, since it can depend on the others.
func (r *actionRun) all() (out ActionsDone, err error) {
	u, err := r.deps.Units(r.tx)
	if err != nil {
		return out, err
	}
	if r.rec.RedirectURI != "" &&
		!settings.Whitelisted(u.Features.ActionToken.WhitelistedURLs, r.rec.RedirectURI) { // removed from the list since
		return out, &FailedError{typesOf(r.rec.Actions), fmt.Errorf("%w: the redirect_uri is no longer allowed", ErrAction)}
	}
	out.Results, out.RedirectURI = make([]ActionResult, len(r.rec.Actions)), r.rec.RedirectURI
	login := -1
	for i, a := range r.rec.Actions {
		if a.Type == ActionLogin {
			login = i
		} else if out.Results[i], err = r.one(i, a, u); err != nil {
			return out, err
		}
	}
	if login >= 0 {
		if out.Results[login], err = r.one(login, r.rec.Actions[login], u); err != nil {
			return out, err
		}
		out.RedirectURI = r.deps.Issuer + ticketURL(r.ticket)
	}
	profile, err := r.deps.Person.Profile(r.tx, r.rec.PersonID)
	if err == nil && profile.HasEmail(false) {
		out.Profile = &profile
	}
	return out, err
}

// one does the action with this index.
func (r *actionRun) one(i int, a Action, u *settings.Units) (ActionResult, error) {
	result := ActionResult{Type: a.Type, Status: "SUCCESS", Parameters: map[string]string{}}
	var err error
	switch a.Type {
	case ActionLogin:
		err = r.signIn(u, result.Parameters)
	case ActionActivatePerson:
		err = r.activate()
	case ActionCouple:
		id := &idp.Identity{Issuer: a.Parameters[paramIssuer], Subject: a.Parameters[paramExternal]}
		err = r.couplePerson(i, a.Parameters[paramIDP], id, result.Parameters)
	case ActionCoupleSession:
		var providerID string
		var id *idp.Identity
		if providerID, id, err = r.identityOf(a.Parameters[paramSession]); err == nil {
			err = r.couplePerson(i, providerID, id, result.Parameters)
		}
	default:
		err = ErrAction
	}
	for _, verdict := range []error{
		ErrAction, ErrHasRole, person.ErrCoupled, person.ErrCoupledOther, person.ErrHasRole,
		federation.ErrNoProvider,
	} {
		if errors.Is(err, verdict) {
			return result, &FailedError{[]string{a.Type}, err}
		}
	}
	if errors.As(err, new(*person.StateError)) {
		return result, &FailedError{[]string{a.Type}, err}
	}
	return result, err
}

// signIn stores a ticket that signs the person in, once and within minutes.
func (r *actionRun) signIn(u *settings.Units, result map[string]string) error {
	if r.owner.State != person.Active {
		return &person.StateError{State: r.owner.State}
	}
	if err := r.spare(); err != nil {
		return err
	}
	level := r.rec.level(&u.Features.ActionToken)
	result[paramLevel] = strconv.Itoa(level)
	rec := ticketRecord{
		PersonID: r.rec.PersonID, Epoch: r.owner.Epoch, Level: level, RedirectURI: r.rec.RedirectURI,
		ExpiresAt: r.now.Add(ticketLife), Session: r.rec.Session,
		Roles: r.rec.Roles, Global: r.rec.Global,
	}
	return signInTickets.Create(r.tx, secret.Hash(r.ticket), rec, rec.ExpiresAt.Add(session.CollectAfter))
}

// spare refuses the token of an API client for a person with a role. It can have been made before they had one.
func (r *actionRun) spare() error {
	if r.rec.Session == "" && !r.rec.Roles && r.deps.Person.HasRole(&r.owner) {
		return ErrHasRole
	}
	return nil
}

// level is the authentication level of the LOGIN, which the Ceiling bounds.
func (r *Record) level(f *settings.ActionToken) int {
	if r.Ceiling > 0 {
		return min(r.Ceiling, r.wanted(f))
	}
	return r.wanted(f)
}

// wanted is level without the Ceiling. That of a link which the person made is never above the current setting.
func (r *Record) wanted(f *settings.ActionToken) int {
	switch {
	case r.Session != "":
		return min(r.Level, f.Login.AuthenticationLevel)
	case r.Level != 0:
		return r.Level
	case r.AppToWeb:
		return f.AppToWeb.AuthenticationLevel
	}
	return f.Login.AuthenticationLevel
}

// activate makes an invited or inactive person active.
func (r *actionRun) activate() (err error) {
	if r.owner.State != person.Inactive && r.owner.State != person.Invited {
		return fmt.Errorf("%w: the person is active already", ErrAction)
	}
	if err := r.spare(); err != nil {
		return err
	}
	done := r.by.Fill(r.activated, r.rec.PersonID, "by action token")
	r.owner, err = r.deps.Person.Activate(r.tx, r.rec.PersonID, r.owner, done, r.now)
	return err
}

// couplePerson links an identity at a provider to the person.
func (r *actionRun) couplePerson(i int, providerID string, id *idp.Identity, result map[string]string) error {
	if r.registryErr != nil {
		return r.registryErr
	}
	p := r.known.Get(providerID)
	if p == nil {
		return federation.ErrNoProvider
	}
	result[paramIDP], result[paramExternal] = providerID, id.Subject
	linked := &idp.Identity{Issuer: id.Issuer, Subject: id.Subject}
	known, err := person.Identities.Has(r.tx, person.CoupledKey(providerID, linked))
	if err == nil {
		err = r.deps.Federation.Couple(r.tx, r.rec.PersonID, providerID, id.Issuer, id.Subject, r.now)
	}
	if err == nil && !known {
		err = person.NoteVouched(r.tx, providerID, linked, true)
	}
	if err != nil {
		return err
	}
	return r.record(r.coupled[i], "by "+p.Name)
}

// identityOf returns an identity that a provider has verified. sessionID is the id of a session, or the parameter flow
// of the page /sign-in/connect of a sign-in under way. ErrAction: there is no such identity.
func (r *actionRun) identityOf(sessionID string) (providerID string, id *idp.Identity, err error) {
	key := secret.Hash(sessionID)
	flow, _, err := federation.ProviderFlows.Find(r.tx, key)
	if err != nil {
		return "", nil, err
	}
	// An unsolicited answer can have been forced on the browser from which the API client has the parameter.
	if flow.Identity != nil && flow.SignIn != "" && flow.ExpiresAt.After(r.now) {
		raw, err := r.deps.Federation.Unseal("identity", key, flow.Identity)
		if err != nil {
			return "", nil, err
		}
		id = new(idp.Identity)
		return flow.Provider, id, cbor.Unmarshal(raw, id)
	}
	rec, err := r.deps.Session.Live(r.tx, sessionID, r.now)
	if err == nil && rec.Held {
		var h session.ProviderRecord
		if h, err = session.ProviderRecords.Get(r.tx, sessionID); err == nil {
			var known person.IdentityRecord
			if known, err = person.Identities.Get(r.tx, h.Identity); err == nil && known.Subject != "" {
				return h.Provider, &idp.Identity{Issuer: known.Issuer, Subject: known.Subject}, nil
			}
		}
	}
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return "", nil, err
	}
	return "", nil, fmt.Errorf("%w: there is no such session at a provider", ErrAction)
}

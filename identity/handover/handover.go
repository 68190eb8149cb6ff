// Package handover moves people over from an old directory at their first sign-in: it has the directory verify the
// password once, then creates the account with its own hash.
// (docs/decisions/configuration.md#first-sign-in-by-an-old-directory)
package handover

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/username"
	"github.com/gatehouse-id/gatehouse/storage"
)

// directoryTimeout is the time that a person waits for all old directories together.
const directoryTimeout = 4500 * time.Millisecond

// Deps are the dependencies of the service.
type Deps struct {
	Person     *person.Service
	Proof      *challenge.Service
	Federation *federation.Service
	Store      storage.Store
	Events     *audit.Recorder
	Refusals   *denial.Recorder
	Log        *zap.Logger
	Now        func() time.Time
}

// Service moves people over. It is safe for concurrent use.
type Service struct{ Deps }

// New returns a service.
func New(d Deps) *Service { return &Service{d} }

// newcomer is an unknown username with its password.
type newcomer struct {
	challenge.Unknown

	partition, name string // as it was typed, without the partition
	folded          string
	more            challenge.Attempt // at the accounts that directories have found
}

var (
	// errKnown says that the account of the directory was moved already.
	errKnown = errors.New("the account was moved already")
	// errTaken says that the username or the address belongs to someone else here.
	errTaken = errors.New("the name or the address belongs to another account here")
	errWait  = errors.New("too many tries")
)

// Ask implements challenge.Fallback: it returns the owner of an unknown username and its password. An empty Holder
// means that there is no owner. The error is challenge.ErrFallbackDown if an old directory does not answer.
func (s *Service) Ask(ctx context.Context, who challenge.Unknown) (a person.Holder, more challenge.Attempt, err error) {
	known, err := s.Federation.Current(ctx)
	if err != nil {
		return a, more, err
	}
	old := known.OldDirectories()
	if len(old) == 0 || known.NoPassword || !person.CanBePassword(who.Password) || person.IsID(who.Username) {
		return a, more, nil
	}
	n := &newcomer{Unknown: who}
	var ok bool
	if n.partition, n.name, ok = s.Person.SplitName(strings.TrimSpace(who.Username)); !ok || n.partition != audit.DefaultPartition {
		return a, more, nil // providers bring no one into another partition
	}
	if n.folded, err = person.Fold(n.name); err != nil {
		return a, more, nil //nolint:nilerr // the name cannot be a username
	}
	came, here, err := s.recall(ctx, n.partition, n.folded)
	switch {
	case err != nil || here:
		return a, more, err
	case came != "":
		a, err = s.holder(ctx, n, came)
		return a, n.more, err
	}
	a, err = s.askAll(ctx, n, old)
	return a, n.more, err
}

// askAll asks the directories in their order.
func (s *Service) askAll(ctx context.Context, n *newcomer, old []*federation.Member) (a person.Holder, err error) {
	asking, cancel := context.WithTimeout(ctx, directoryTimeout)
	defer cancel()
	addr, _ := netip.ParseAddr(n.From.ClientIP)
	var down error
	for _, m := range old {
		if !m.Serves(addr) {
			continue
		}
		id, err := s.askOne(asking, n, m)
		rejection := new(idp.Rejection)
		switch {
		case err == nil:
			return s.takeOver(ctx, n, m, id)
		case errors.Is(err, errKnown):
			return s.holderOf(ctx, n, m, id)
		case errors.Is(err, errWait):
			return a, nil
		case errors.Is(err, idp.ErrCredentials):
			n.more.Refused = true
		case errors.As(err, &rejection):
			n.more.Refused = true
			s.refuse(ctx, n, m, denial.ProviderRefused, err)
		case isOurs(err):
			return a, err
		default:
			s.refuse(ctx, n, m, denial.ProviderFailed, err)
			down = challenge.ErrFallbackDown
		}
	}
	return a, down
}

// isOurs reports whether an error is a failure of our storage rather than of a directory.
func isOurs(err error) bool {
	for _, ours := range []error{storage.ErrUnavailable, storage.ErrFull, storage.ErrCorrupt, storage.ErrReadOnly} {
		if errors.Is(err, ours) {
			return true
		}
	}
	return false
}

// askOne asks one directory. errKnown: the account was moved before, so its password is only tried here.
// (docs/attacks/person-files.md: other spellings of a name have no tries of their own)
func (s *Service) askOne(ctx context.Context, n *newcomer, m *federation.Member) (*idp.Identity, error) {
	var found *idp.Identity
	var failed error // ours, not the directory's
	id, err := s.Federation.AskOld(ctx, m, idp.Credentials{Username: n.name, Password: n.Password, Found: func(account string) error {
		if account == "" {
			return nil
		}
		found = &idp.Identity{Subject: account}
		var came string
		if came, failed = s.cameAs(ctx, m, found); failed == nil && came != "" {
			failed = errKnown
		}
		if failed == nil {
			failed = s.count(ctx, n, person.Holder{}, m.ID+"\x00"+account)
		}
		return failed
	}})
	switch {
	case errors.Is(failed, errKnown):
		return found, errKnown
	case failed != nil:
		return nil, failed
	case err != nil:
		return nil, err
	}
	came, err := s.cameAs(ctx, m, id)
	if err == nil && came != "" {
		err = errKnown
	}
	return id, err
}

// count counts the attempt for an account in addition to the typed name.
func (s *Service) count(ctx context.Context, n *newcomer, a person.Holder, name string) error {
	at, err := s.Proof.BeginAttempt(ctx, a, name, challenge.Source{Address: n.From.ClientIP, Device: challenge.Hashed(n.Device), Many: true})
	if err != nil {
		return err
	}
	n.more.Counters = append(n.more.Counters, at.Counters...)
	if n.more.Wait, n.more.Exhausted = at.Wait, n.more.Exhausted || at.Exhausted; at.Wait > 0 {
		return errWait
	}
	return nil
}

// recall returns the person who was moved under a name, and whether the name is that of a removed person.
func (s *Service) recall(ctx context.Context, partition, folded string) (came string, removed bool, err error) {
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		rec, found, err := handovers.Find(tx, nameKey(byName, partition, folded))
		if err != nil {
			return err
		}
		came = rec.PersonID
		if !found {
			removed, err = handovers.Has(tx, nameKey(gone, partition, folded))
		}
		return err
	})
	return came, removed, err
}

// cameAs returns the person that an identity belongs to, or "".
func (s *Service) cameAs(ctx context.Context, m *federation.Member, id *idp.Identity) (came string, err error) {
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		came, err = cameAs(tx, m, id)
		return err
	})
	return came, err
}

func cameAs(tx storage.Tx, m *federation.Member, id *idp.Identity) (string, error) {
	rec, found, err := handovers.Find(tx, subjectKey(m, id))
	if err != nil || found {
		return rec.PersonID, err
	}
	for _, key := range []string{person.IdentityKey(m.ID, id), person.AnyIssuerKey(m.ID, id.Subject)} {
		linked, found, err := person.Identities.Find(tx, key)
		if err != nil || found {
			return linked.PersonID, err
		}
	}
	return "", nil
}

// holderOf returns the person that an identity belongs to.
func (s *Service) holderOf(ctx context.Context, n *newcomer, m *federation.Member, id *idp.Identity) (person.Holder, error) {
	came, err := s.cameAs(ctx, m, id)
	if err != nil || came == "" {
		return person.Holder{}, err
	}
	return s.holder(ctx, n, came)
}

// holder returns a person who was moved before, found by another spelling of the name: the password is tried here, and
// the attempt counts for this person. If the person was removed, the Holder is empty.
func (s *Service) holder(ctx context.Context, n *newcomer, id string) (person.Holder, error) {
	a, err := s.Person.HolderOf(ctx, id)
	if err != nil || a.ID == "" {
		return a, err
	}
	if err := s.count(ctx, n, a, ""); err != nil && !errors.Is(err, errWait) {
		return person.Holder{}, err
	}
	return a, nil
}

// takeOver creates the account of a person whose password an old directory has verified.
func (s *Service) takeOver(ctx context.Context, n *newcomer, m *federation.Member, id *idp.Identity) (a person.Holder, err error) {
	p := federation.PersonFrom(id)
	if p.Username = m.Names(id); p.Username == "" {
		p.Username = n.name
		if email, verified := person.VerifiedEmail(id); username.Reserved(n.folded) || strings.Contains(n.folded, "@") &&
			(!verified || person.FoldEmail(email) != person.FoldEmail(n.name)) {
			s.refuse(ctx, n, m, denial.IdentityRefused, errName)
			return a, nil
		}
	}
	p.Partition, p.Groups, p.Foreign = n.partition, m.OwnGroups(id), true
	// The policy is for new passwords: this one is the person's already.
	if p.PasswordHash, err = s.Person.HashKnown(ctx, n.Password); err != nil {
		return a, err
	}
	ev, err := s.Person.NewEvents(n.From, moved)
	if err != nil {
		return a, err
	}
	now := s.Now()
	p.AlsoWrite = func(tx storage.Tx, d *person.Record, personID string) error {
		if err := s.checkFree(tx, n, m, id, d); err != nil {
			return err
		}
		rec := handoverRecord{PersonID: personID, At: now}
		if err := handovers.Put(tx, nameKey(byName, n.partition, n.folded), rec, time.Time{}); err != nil {
			return err
		}
		if err := handovers.Create(tx, subjectKey(m, id), rec, time.Time{}); err != nil {
			return err
		}
		if m.Redirects() { // a sign-in there finds this account
			if err := s.Person.CoupleIdentity(tx, m.ID, id, personID, now); err != nil {
				return err
			}
		}
		e := ev[0]
		e.PersonID, e.Actor, e.AgentUser, e.Provider, e.ClientID = personID, personID, d.Username, m.ID, n.Client
		e.Partition = d.PartitionName()
		return s.Events.Append(tx, e)
	}
	made, err := s.create(ctx, p, audit.Actor{Origin: n.From, Name: m.Name, Vouched: m.Untrusted()})
	switch {
	case err == nil:
		return s.Person.HolderOf(ctx, made.ID)
	case errors.Is(err, errKnown): // another sign-in was faster
		return s.holderOf(ctx, n, m, id)
	case errors.Is(err, person.ErrUsernameTaken):
		if came, err := s.cameAs(ctx, m, id); err != nil || came != "" {
			return s.holderOf(ctx, n, m, id)
		}
	case !errors.Is(err, errTaken) && !errors.As(err, new(*person.ValidationError)):
		return a, err
	}
	s.refuse(ctx, n, m, denial.IdentityRefused, err)
	return a, nil
}

// errName says that the operator has to map a username.
var errName = errors.New("the name that was typed cannot be a username here: map one, or say that the addresses of the directory are verified")

// create creates the person. An e-mail address that is not accepted here is left out.
func (s *Service) create(ctx context.Context, p person.NewPerson, by audit.Actor) (person.Details, error) {
	d, err := s.Person.CreateAs(ctx, p, by, person.ReasonMigration)
	if invalid := new(person.ValidationError); errors.As(err, &invalid) && invalid.Field == "email" {
		p.Email, p.EmailVerified, p.LeftOut = "", nil, append(p.LeftOut, person.LeftOut(*invalid))
		d, err = s.Person.CreateAs(ctx, p, by, person.ReasonMigration)
	}
	return d, err
}

// checkFree refuses an account that was moved already, that belongs to a removed person, or that has the address of
// another person.
func (s *Service) checkFree(tx storage.Tx, n *newcomer, m *federation.Member, id *idp.Identity, d *person.Record) error {
	came, err := cameAs(tx, m, id)
	if err != nil {
		return err
	}
	if came != "" {
		return errKnown
	}
	email, verified := person.VerifiedEmail(id)
	names := []string{n.folded, person.FoldEmail(email)}
	if folded, err := person.Fold(d.Username); err == nil {
		names = append(names, folded)
	}
	for _, name := range names {
		if removed, err := handovers.Has(tx, nameKey(gone, n.partition, name)); err != nil || name != "" && removed {
			return orTaken(err)
		}
	}
	if !verified {
		return nil
	}
	same, err := person.ByVerifiedEmail(tx, email)
	if err != nil || len(same) > 0 { // the new person is not stored yet
		return orTaken(err)
	}
	return nil
}

func orTaken(err error) error {
	if err == nil {
		return errTaken
	}
	return err
}

// Forget stores the names of a person who is removed, so an old directory does not bring the person back.
func Forget(tx storage.Tx, personID string) error {
	rec, found, err := person.Records.Find(tx, personID)
	if err != nil || !found {
		return err
	}
	names := []string{}
	if folded, err := person.Fold(rec.Username); err == nil {
		names = append(names, folded)
	}
	prof, err := person.ReadProfile(tx, personID, &rec)
	if err != nil {
		return err
	}
	for _, e := range prof.Profile.EmailAddresses {
		names = append(names, person.FoldEmail(e.Value))
	}
	for _, name := range names {
		if err := handovers.Put(tx, nameKey(gone, rec.PartitionName(), name), handoverRecord{PersonID: personID, At: rec.UpdatedAt},
			time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

func nameKey(kind, partition, folded string) string {
	return storage.Key(kind, partition, secret.Hash(folded))
}

func subjectKey(m *federation.Member, id *idp.Identity) string {
	return storage.Key(bySubject, m.ID, secret.Hash(person.IdentityKey(m.ID, id)))
}

// refuse records that an old directory does not let the person in, and why. It leaves out names and passwords.
func (s *Service) refuse(ctx context.Context, n *newcomer, m *federation.Member, reason denial.Reason, err error) {
	why := denial.Refusal{Where: denial.SignIn, Reason: reason, By: "provider", Provider: m.ID, ClientID: n.Client}
	s.Refusals.Refuse(ctx, s.Log, why, err, zap.String("client_ip", n.From.ClientIP))
}

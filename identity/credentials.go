package identity

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Credentials are a username and password that somebody has given to an API client.
type Credentials struct {
	Client    string // id of the API client
	Partition string // of the username. It does not matter while partitions are off.
	Username  string
	Password  secret.String
	Context   string // what the client says about its flow, for the event
	Origin    event.Origin
}

// StateError says that the password is right, and the person must not use it.
type StateError struct{ State State }

func (e *StateError) Error() string {
	return "identity: the person is " + strings.ToLower(string(e.State))
}

// MissingError says that the password is right, and that something is not known of the person that the configuration demands: of each entry any
// one attribute (config.AttributeName and so on).
type MissingError struct{ AnyOf [][]string }

func (e *MissingError) Error() string { return "identity: required attributes are missing" }

// ValidateCredentials returns what is known of the person whose credentials these are. It shares the throttle of the sign-in page, costs the same
// whoever exists, and leaves most of the queue of password hashes to that page. login.ErrBadCredentials, *login.ThrottledError, *StateError,
// *MissingError, secret.ErrBusy, and a *login.Refusal while passwords sign nobody in.
func (s *Service) ValidateCredentials(ctx context.Context, c Credentials) (Profile, error) {
	if err := s.passwordTaken(ctx); err != nil {
		return Profile{}, err
	}
	username, err := s.InPartition(c.Partition, strings.TrimSpace(c.Username))
	if err != nil {
		username = "" // nobody is in a partition that cannot be
	}
	a, err := s.lookUp(ctx, username)
	if err != nil {
		return Profile{}, err
	}
	at, err := s.countTry(ctx, a, username, whence{address: c.Origin.ClientIP, many: true})
	if err != nil {
		return Profile{}, err
	}
	if at.wait > 0 {
		s.Log.Info("credentials not taken: too many tries", zap.String("person_id", a.id), zap.String("api_client", c.Client))
		return Profile{}, &login.ThrottledError{Wait: at.wait}
	}
	fresh, err := s.compare(ctx, s.part, a, c.Password.Reveal())
	if err == nil {
		var p Profile
		if p, err = s.validated(ctx, c, a, at, fresh); err == nil {
			return p, nil
		}
		if errors.As(err, new(*StateError)) || errors.As(err, new(*MissingError)) {
			return Profile{}, err
		}
	}
	if !errors.Is(err, errMismatch) {
		s.notEvaluated(ctx, at)
		return Profile{}, err
	}
	s.Log.Info("credentials refused", zap.String("person_id", a.id), zap.String("api_client", c.Client))
	if err := s.failed(ctx, c.Client, a, at, c.Origin); err != nil {
		return Profile{}, err
	}
	return Profile{}, login.ErrBadCredentials
}

// validated writes what a good password leaves behind and returns the profile, or says why the person must not use it.
func (s *Service) validated(ctx context.Context, c Credentials, a account, at attempt, fresh string) (out Profile, err error) {
	ev, err := s.newEvents(c.Origin, credentialsValidated, loginFailed)
	if err != nil {
		return out, err
	}
	now := s.Now()
	var refused error
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		p, pw, err := a.stored(tx)
		if err != nil {
			return err
		}
		if fresh != "" {
			if err := passwords.Put(tx, a.id, passwordRecord{PHC: fresh, ChangedAt: pw.ChangedAt}, time.Time{}); err != nil {
				return err
			}
		}
		if err := s.giveBack(tx, at, true, now); err != nil {
			return err
		}
		if out, refused, err = s.usable(tx, a.id, p); err != nil {
			return err
		}
		e := Actor{ID: c.Client, Name: c.Client}.did(ev[0], a.id, c.Context)
		if refused != nil {
			e = Actor{ID: c.Client, Name: c.Client}.did(ev[1], a.id, strings.TrimPrefix(refused.Error(), "identity: "))
		}
		e.ClientID, e.Partition = c.Client, p.partition()
		return s.Events.Append(tx, e)
	})
	if err == nil {
		err = refused
	}
	return out, err
}

// stored returns what is stored of an account, or errMismatch when its password is not what was verified.
func (a account) stored(tx storage.Tx) (p personRecord, pw passwordRecord, err error) {
	if p, err = persons.Get(tx, a.id); err == nil {
		pw, err = passwords.Get(tx, a.id)
	}
	if errors.Is(err, storage.ErrNotFound) || (err == nil && (pw.PHC != a.phc || p.State == Removed)) {
		return p, pw, errMismatch
	}
	return p, pw, err
}

// usable returns the profile of a person, or refused: a *StateError or *MissingError.
func (s *Service) usable(tx storage.Tx, id string, p personRecord) (out Profile, refused, err error) {
	if p.State != Active {
		return out, &StateError{p.State}, nil
	}
	if out, err = s.Profile(tx, id); err != nil {
		return out, nil, err
	}
	u, err := s.Units(tx)
	if err != nil {
		return out, nil, err
	}
	if missing := out.missing(u); len(missing) > 0 {
		return Profile{}, &MissingError{missing}, nil
	}
	return out, nil, nil
}

// missing returns the rules of the configuration that a profile does not meet.
func (p *Profile) missing(u *config.Units) (out [][]string) {
	if u.Attributes.Verification.EmailRequired && !p.hasEmail(true) {
		out = append(out, []string{config.AttributeEmail})
	}
	for _, rule := range u.Profile.Rules {
		met := len(rule.AnyOf) == 0
		for _, attribute := range rule.AnyOf {
			met = met || p.has(attribute)
		}
		if !met {
			out = append(out, rule.AnyOf)
		}
	}
	return out
}

func (p *Profile) has(attribute string) bool {
	switch attribute {
	case config.AttributeName:
		return p.Name.DisplayName != "" || p.Name.FirstName != "" || p.Name.LastName != ""
	case config.AttributePhone:
		return len(p.PhoneNumbers) > 0
	case config.AttributeBirthDate:
		return p.DateOfBirth != ""
	case config.AttributeEmail:
		return p.hasEmail(false)
	}
	return false
}

func (p *Profile) hasEmail(verified bool) bool {
	for _, e := range p.EmailAddresses {
		if e.Verified || !verified {
			return true
		}
	}
	return false
}

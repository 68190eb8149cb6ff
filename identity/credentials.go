package identity

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
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

// MissingError says that the password is right, and that something is not known of the person that the configuration demands: of each entry any
// one attribute (config.AttributeName and so on).
type MissingError struct{ AnyOf [][]string }

func (e *MissingError) Error() string { return "identity: required attributes are missing" }

// ValidateCredentials returns what is known of the person whose credentials these are. It shares the throttle of the sign-in page, costs the same
// whoever exists, and leaves most of the queue of password hashes to that page. login.ErrBadCredentials, *login.ThrottledError, *person.StateError,
// *MissingError, secret.ErrBusy, and a *login.Refusal while passwords sign nobody in.
func (s *Service) ValidateCredentials(ctx context.Context, c Credentials) (person.Profile, error) {
	if err := s.Front.PasswordTaken(ctx); err != nil {
		return person.Profile{}, err
	}
	username, err := s.Person.InPartition(c.Partition, strings.TrimSpace(c.Username))
	if err != nil {
		username = "" // nobody is in a partition that cannot be
	}
	a, err := s.Person.LookUp(ctx, username)
	if err != nil {
		return person.Profile{}, err
	}
	at, err := s.Proof.BeginAttempt(ctx, a, username, proof.Origin{Address: c.Origin.ClientIP, Many: true})
	if err != nil {
		return person.Profile{}, err
	}
	if at.Wait > 0 {
		s.log.Info("credentials not taken: too many tries", zap.String("person_id", a.ID), zap.String("api_client", c.Client))
		return person.Profile{}, &login.ThrottledError{Wait: at.Wait}
	}
	fresh, err := s.Person.Compare(ctx, s.part, a, c.Password.Reveal())
	if err == nil {
		var p person.Profile
		if p, err = s.validated(ctx, c, a, at, fresh); err == nil {
			return p, nil
		}
		if errors.As(err, new(*person.StateError)) || errors.As(err, new(*MissingError)) {
			return person.Profile{}, err
		}
	}
	if !errors.Is(err, person.ErrMismatch) {
		s.Proof.NotEvaluated(ctx, at)
		return person.Profile{}, err
	}
	s.log.Info("credentials refused", zap.String("person_id", a.ID), zap.String("api_client", c.Client))
	if err := s.Proof.Failed(ctx, c.Client, a, at, c.Origin); err != nil {
		return person.Profile{}, err
	}
	return person.Profile{}, login.ErrBadCredentials
}

// validated writes what a good password leaves behind and returns the profile, or says why the person must not use it.
func (s *Service) validated(ctx context.Context, c Credentials, a person.Holder, at proof.Attempt, fresh string) (out person.Profile, err error) {
	ev, err := s.Person.NewEvents(c.Origin, credentialsValidated, proof.LoginFailed)
	if err != nil {
		return out, err
	}
	now := s.now()
	var refused error
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		p, pw, err := a.Stored(tx)
		if err != nil {
			return err
		}
		if fresh != "" {
			if err := person.Passwords.Put(tx, a.ID, person.PasswordRecord{PHC: fresh, ChangedAt: pw.ChangedAt}, time.Time{}); err != nil {
				return err
			}
		}
		if err := s.Proof.Undo(tx, at, true, now); err != nil {
			return err
		}
		if out, refused, err = s.usable(tx, a.ID, p); err != nil {
			return err
		}
		e := event.Actor{ID: c.Client, Name: c.Client}.Fill(ev[0], a.ID, c.Context)
		if refused != nil {
			e = event.Actor{ID: c.Client, Name: c.Client}.Fill(ev[1], a.ID, strings.TrimPrefix(refused.Error(), "identity: "))
		}
		e.ClientID, e.Partition = c.Client, p.PartitionName()
		return s.events.Append(tx, e)
	})
	if err == nil {
		err = refused
	}
	return out, err
}

// usable returns the profile of a person, or refused: a *person.StateError or *MissingError.
func (s *Service) usable(tx storage.Tx, id string, p person.Record) (out person.Profile, refused, err error) {
	if p.State != person.Active {
		return out, &person.StateError{State: p.State}, nil
	}
	if out, err = s.Person.Profile(tx, id); err != nil {
		return out, nil, err
	}
	u, err := s.units(tx)
	if err != nil {
		return out, nil, err
	}
	if missing := out.Missing(u); len(missing) > 0 {
		return person.Profile{}, &MissingError{missing}, nil
	}
	return out, nil, nil
}

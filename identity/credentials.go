package identity

import (
	"context"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Credentials are a username and a password that a person has given to an API client.
type Credentials struct {
	Client    string // id of the API client
	Partition string // of the username. Ignored while partitions are off.
	Username  string
	Password  secret.String
	Context   string // what the client says about its flow, for the event
	Origin    audit.Origin
}

// MissingError says that the password is right, and that the person lacks attributes that the configuration demands: of
// each entry any one (settings.AttributeName and so on).
type MissingError struct{ AnyOf [][]string }

func (e *MissingError) Error() string { return "required attributes are missing" }

// ValidateCredentials returns the profile of the person whose credentials these are. It shares the throttle of the
// sign-in page, costs the same for unknown people, and leaves most of the queue of password hashes to that page.
// login.ErrBadCredentials, *login.ThrottledError, *person.StateError, *MissingError, person.ErrPlanted, secret.ErrBusy,
// and a *login.Refusal while passwords sign no one in.
func (s *Service) ValidateCredentials(ctx context.Context, c Credentials) (person.Profile, error) {
	u, err := s.Person.Settings(ctx)
	if err == nil {
		err = refusePasswords(u)
	}
	if err != nil {
		return person.Profile{}, err
	}
	username, err := s.Person.InPartition(c.Partition, strings.TrimSpace(c.Username))
	if err != nil {
		username = "" // the partition cannot exist, so the person is unknown
	}
	var out person.Profile
	err = s.tryPassword(ctx, passwordTry{
		client: c.Client, username: username, origin: c.Origin, many: true,
		verify: func(ctx context.Context, a person.Holder) (string, error) {
			return s.Person.Compare(ctx, s.part, a, c.Password.Reveal())
		},
		accept: func(ctx context.Context, v verdict) (err error) {
			out, err = s.validate(ctx, c, v)
			return err
		},
	})
	if err != nil {
		return person.Profile{}, err
	}
	return out, nil
}

// validate writes that a password was right and returns the profile, or why the person must not use it.
func (s *Service) validate(ctx context.Context, c Credentials, v verdict) (out person.Profile, err error) {
	ev, err := s.Person.NewEvents(c.Origin, credentialsValidated, challenge.LoginFailed)
	if err != nil {
		return out, err
	}
	id, now, client := v.account.ID, s.now(), audit.Actor{ID: c.Client, Name: c.Client}
	var refused error
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		p, pw, err := v.account.Stored(tx)
		if err != nil {
			return err
		}
		if err := s.confirm(tx, v, &p, pw, now); err != nil {
			return err
		}
		if out, refused, err = s.usable(tx, id, p); err != nil {
			return err
		}
		e := client.Fill(ev[0], id, c.Context)
		if refused != nil {
			e = client.Fill(ev[1], id, refused.Error())
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
	missing := out.Missing(u)
	if !out.HasEmail(false) && !slices.ContainsFunc(missing,
		func(rule []string) bool { return slices.Contains(rule, settings.AttributeEmail) }) {
		missing = append(missing, []string{settings.AttributeEmail}) // a Profile has at least one address
	}
	if len(missing) > 0 {
		return person.Profile{}, &MissingError{missing}, nil
	}
	return out, nil, nil
}

package person

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Difference is something that the configuration says of a person and that is otherwise in the storage, where it stays.
// (docs/decisions/operation.md#persons-of-the-caddyfile)
type Difference struct {
	Username string
	Option   string // of the Caddyfile; empty: the person as a whole
	Reason   string
	Mend     string
}

const (
	maxCompared = 50 // passwords, each of which costs a hash at every start
	pageSize    = 200
)

// Configure creates the persons of the configuration that do not exist, gives the others the groups that it names, and
// returns what else differs.
func (s *Service) Configure(ctx context.Context, persons []NewPerson) (list []Difference, err error) {
	present, hashes := map[string]bool{}, 0
	for _, n := range persons {
		id, found, err := s.addConfigured(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("person %q: %w", n.Username, err)
		}
		if id == "" {
			continue
		}
		present[id] = true
		if !found {
			continue
		}
		if hashes++; hashes > maxCompared {
			n.Password = secret.String{}
		}
		more, err := s.compare(ctx, id, n)
		if err != nil {
			return nil, fmt.Errorf("person %q: %w", n.Username, err)
		}
		list = append(list, more...)
	}
	gone, err := s.noLongerConfigured(ctx, present)
	return append(list, gone...), err
}

// addConfigured creates a person if the username is unknown. Only then is the password hashed. It returns the person's
// id, empty if that cannot be told, and whether the person was there.
func (s *Service) addConfigured(ctx context.Context, n NewPerson) (id string, found bool, err error) {
	placed, err := s.Place(n)
	if err != nil {
		return "", false, err
	}
	if _, _, err := placed.Record(); err != nil {
		return "", false, err
	}
	typed, err := s.InPartition(placed.Partition, placed.Username)
	if err != nil {
		return "", false, err
	}
	switch p, err := s.Person(ctx, typed); {
	case err == nil:
		return p.ID, true, nil
	case !errors.Is(err, ErrNoPerson):
		return "", false, err
	}
	d, err := s.CreateAs(ctx, n, configuration, unwelcomed)
	switch {
	case errors.Is(err, ErrUsernameTaken): // another node was faster
		return "", false, nil
	case errors.As(err, new(*UncertainError)): // the start does not wait for the check
		s.log.Error("person of the configuration not created; it is tried at the next start", zap.String("username", n.Username), zap.Error(err))
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return d.ID, false, s.noteConfigured(ctx, d.ID)
}

// compare gives an existing person the groups of the configuration, and returns the other differences.
func (s *Service) compare(ctx context.Context, id string, n NewPerson) (list []Difference, err error) {
	var now Details
	var stored PasswordRecord
	err = s.store.View(ctx, func(tx storage.Tx) (err error) {
		if now, err = s.Details(tx, id); err != nil {
			return err
		}
		stored, _, err = Passwords.Find(tx, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	called, err := s.InPartition(now.Partition, now.Username)
	if err != nil {
		return nil, err
	}
	differs := func(option, reason, mend string) {
		list = append(list, Difference{n.Username, option, "person " + n.Username + ": " + reason, mend})
	}
	if err := s.followGroups(ctx, id, called, n.Groups, now.Groups, differs); err != nil {
		return nil, err
	}
	command := func(what string) string { return fmt.Sprintf("`caddy gatehouse person %s %s`", what, called) }
	same := true
	switch {
	case n.PasswordHash != "":
		same = stored.PHC == n.PasswordHash
	case !n.Password.IsZero() && stored.PHC == "":
		same = false
	case !n.Password.IsZero():
		// A reload of a busy server must not fail because a password cannot be compared now.
		typed, ok := normalPassword(n.Password.Reveal())
		equal, _, err := s.hasher.Verify(ctx, stored.PHC, typed)
		same = equal && ok || err != nil
	}
	if !same {
		differs("password", "has another password than the Caddyfile says, whose password counts only when the person is created",
			command("passwd")+" sets it, or remove the password from the Caddyfile")
	}
	name := now.Profile.Name
	for _, c := range []struct{ option, says, is string }{
		{"name", n.Name, name.DisplayName},
		{"given_name", n.GivenName, name.FirstName},
		{"family_name", n.FamilyName, name.LastName},
		{"locale", n.Locale, now.Profile.PreferredLocale},
	} {
		if c.says != "" && c.says != c.is {
			differs(c.option, fmt.Sprintf("%s is %q in the storage, which counts, and %q in the Caddyfile", c.option, c.is, c.says),
				"change it with `caddy gatehouse person import FILE --update`, or make the Caddyfile agree")
		}
	}
	if now.State != Active {
		differs("", "is "+strings.ToLower(string(now.State))+", and the Caddyfile does not change that", command("unblock")+", or remove the person from the Caddyfile")
	}
	return list, nil
}

// followGroups gives a person the groups that the configuration names. Where it names none, those of the storage stay.
func (s *Service) followGroups(ctx context.Context, id, called string, want, now []string, differs func(option, reason, mend string)) error {
	if len(want) == 0 {
		if len(now) > 0 {
			differs("groups", "is in the groups "+strings.Join(now, ", ")+", and the Caddyfile names none",
				fmt.Sprintf("`caddy gatehouse group leave %s %s` takes the person out, or name the groups in the Caddyfile", now[0], called))
		}
		return s.noteConfigured(ctx, id)
	}
	if sameSet(now, want) {
		return s.noteConfigured(ctx, id)
	}
	_, err := s.UpdatePerson(ctx, id, Edit{By: configuration}, func(tx storage.Tx, d *Details) error {
		d.Groups = slices.Clone(want)
		return configured.Put(tx, id, struct{}{}, time.Time{})
	})
	return err
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// noteConfigured remembers that the configuration has a person, so that it can be told when it has not any more.
func (s *Service) noteConfigured(ctx context.Context, id string) error {
	var known bool
	err := s.store.View(ctx, func(tx storage.Tx) (err error) {
		known, err = configured.Has(tx, id)
		return err
	})
	if err != nil || known {
		return err
	}
	return s.store.Update(ctx, func(tx storage.Tx) error { return configured.Put(tx, id, struct{}{}, time.Time{}) })
}

// noLongerConfigured returns the persons whom the configuration had at the last start and has not now, once: from then
// on they are like persons that were added by command.
func (s *Service) noLongerConfigured(ctx context.Context, present map[string]bool) (list []Difference, err error) {
	var gone []string
	var names map[string]string
	err = s.store.View(ctx, func(tx storage.Tx) error {
		gone, names = nil, map[string]string{}
		for e, err := range configured.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			if present[e.Key] {
				continue
			}
			gone = append(gone, e.Key)
			rec, found, err := Records.Find(tx, e.Key)
			if err != nil {
				return err
			}
			if found && rec.State != Removed && rec.State != Blocked {
				names[e.Key] = rec.Username
			}
			if len(gone) == pageSize {
				break
			}
		}
		return nil
	})
	if err != nil || len(gone) == 0 {
		return nil, err
	}
	for _, id := range gone {
		if name := names[id]; name != "" {
			list = append(list, Difference{
				name, "", "person " + name + ": is gone from the Caddyfile, and still there and able to sign in",
				fmt.Sprintf("`caddy gatehouse person block %s` ends that", name),
			})
		}
	}
	return list, s.store.Update(ctx, func(tx storage.Tx) error {
		for _, id := range gone {
			if err := configured.Delete(tx, id); err != nil {
				return err
			}
		}
		return nil
	})
}

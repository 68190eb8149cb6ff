package person

import (
	"bytes"
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/shellword"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Difference is a value of a person in the configuration that differs from the stored one, which stays.
// (docs/decisions/operation.md#persons-of-the-caddyfile)
type Difference struct {
	Username string
	Option   string // of the Caddyfile; empty: the person as a whole
	Reason   string
	Fix      string
}

const (
	maxCompared = 50 // passwords, each of which costs a slow hash: the start waits for them
	pageSize    = 200

	comparedPurpose = "gatehouse configured password v1"
)

// compared returns the result of a comparison of a password with a stored hash, in a form that can be stored. Without
// the key it reveals nothing about the password, and it is void once the hash or the password changes.
func compared(key []byte, id, phc, password string, same bool) []byte {
	return secret.MAC(key, id, phc, password, strconv.FormatBool(same))
}

// Configure creates the persons of the configuration that do not exist, gives the others the groups that it names, and
// returns what else differs. What the stored state does not allow differs too, and stops no start: with it the console
// would not start either, in which the state can be changed.
func (s *Service) Configure(ctx context.Context, persons []NewPerson) (list []Difference, err error) {
	present, hashes := map[string]bool{}, maxCompared
	for _, n := range persons {
		placed, typed, err := s.placeConfigured(n)
		if err != nil {
			return nil, fmt.Errorf("person %q: %w", n.Username, err)
		}
		id, found, err := s.addConfigured(ctx, n, placed, typed)
		if IsRefusal(err) {
			list = append(list, Difference{
				n.Username, "", "person " + n.Username + ": does not exist and cannot be created: " + err.Error(),
				"make the Caddyfile and the settings agree, and reload",
			})
			continue
		}
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
		more, err := s.compare(ctx, id, n, &hashes)
		if err != nil {
			return nil, fmt.Errorf("person %q: %w", n.Username, err)
		}
		list = append(list, more...)
	}
	gone, err := s.noLongerConfigured(ctx, present)
	return append(list, gone...), err
}

// placeConfigured returns a person of the configuration placed in its partition, and the username as it is entered. Its
// errors are mistakes in the configuration, whatever is stored.
func (s *Service) placeConfigured(n NewPerson) (placed NewPerson, typed string, err error) {
	if placed, err = s.Place(n); err != nil {
		return placed, "", err
	}
	if _, _, err = placed.Record(); err != nil {
		return placed, "", err
	}
	typed, err = s.InPartition(placed.Partition, placed.Username)
	return placed, typed, err
}

// addConfigured creates a person if the username is unknown. Only then is the password hashed. It returns the person's
// id, empty if that is unknown, and whether the person existed.
func (s *Service) addConfigured(ctx context.Context, n, placed NewPerson, typed string) (id string, found bool, err error) {
	switch p, err := s.Person(ctx, typed); {
	case err == nil:
		return p.ID, true, nil
	case !errors.Is(err, ErrNoPerson):
		return "", false, err
	}
	id, err = s.createConfigured(ctx, n, placed)
	switch {
	case errors.Is(err, ErrUsernameTaken): // another node was faster
		return "", false, nil
	case errors.As(err, new(*UncertainError)), errors.Is(err, secret.ErrBusy): // the start waits for neither
		s.deps.Log.Error("person of the configuration not created; it is tried at the next start",
			zap.String("username", n.Username), zap.Error(err))
		return "", false, nil
	}
	return id, false, err
}

// createConfigured creates a person of the configuration, placed in its partition. It also records that the passwords
// match.
func (s *Service) createConfigured(ctx context.Context, n, placed NewPerson) (id string, err error) {
	typed, _ := normalPassword(n.Password.Reveal())
	hashed := !n.Password.IsZero()
	if n.PasswordHash, err = s.firstPassword(ctx, placed); err != nil {
		return "", err
	}
	n.Password = secret.String{}
	n.AlsoWrite = func(tx storage.Tx, _ *Record, id string) error {
		var c configuredRecord
		if hashed {
			c.Compared = compared(s.comparedKeys[0], id, n.PasswordHash, typed, true)
		}
		return configured.Put(tx, id, c, time.Time{})
	}
	d, err := s.CreateAs(ctx, n, configuration, unwelcomed)
	return d.ID, err
}

// compare gives an existing person the groups of the configuration, and returns the other differences. hashes is the
// number of slow hashes that it can still compute.
func (s *Service) compare(ctx context.Context, id string, n NewPerson, hashes *int) (list []Difference, err error) {
	var now Details
	var stored PasswordRecord
	var before configuredRecord
	var known bool
	err = s.deps.Store.View(ctx, func(tx storage.Tx) (err error) {
		if now, err = s.Details(tx, id); err != nil {
			return err
		}
		if stored, _, err = Passwords.Find(tx, id); err != nil {
			return err
		}
		before, known, err = configured.Find(tx, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	called, err := s.InPartition(now.Partition, now.Username)
	if err != nil {
		return nil, err
	}
	called = shellword.Quote(called) // in commands alone
	differs := func(option, reason, fix string) {
		list = append(list, Difference{n.Username, option, "person " + n.Username + ": " + reason, fix})
	}
	if err := s.followGroups(ctx, id, called, n.Groups, now.Groups, differs); err != nil {
		return nil, err
	}
	command := func(what string) string { return fmt.Sprintf("`caddy gatehouse person %s %s`", what, called) }
	same, result := s.samePassword(ctx, id, n, stored.PHC, before.Compared, hashes)
	if !known || !bytes.Equal(result, before.Compared) {
		if err := s.noteConfigured(ctx, id, result); err != nil {
			return nil, err
		}
	}
	if !same {
		differs("password", "has a different password from the one in the Caddyfile, which counts only when the person is created",
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
				"change it with `caddy gatehouse import FILE --update`, or make the Caddyfile agree")
		}
	}
	if now.State != Active {
		differs("", "is "+strings.ToLower(string(now.State))+", and the Caddyfile does not change that",
			command("unblock")+", or remove the person from the Caddyfile")
	}
	return list, nil
}

// samePassword reports whether the password of the configuration is the stored one, and returns the result in the form
// of compared. It computes a hash only for passwords that were not compared before. One that cannot be compared now
// counts as the same, without a result: a reload of a busy server must not fail.
func (s *Service) samePassword(ctx context.Context, id string, n NewPerson, phc string, before []byte,
	hashes *int,
) (same bool, result []byte) {
	switch {
	case n.PasswordHash != "":
		return phc == n.PasswordHash, nil
	case n.Password.IsZero():
		return true, nil
	}
	typed, ok := normalPassword(n.Password.Reveal())
	if phc == "" || !ok {
		return false, nil
	}
	now := func(same bool) []byte { return compared(s.comparedKeys[0], id, phc, typed, same) }
	for _, key := range s.comparedKeys {
		for _, same := range []bool{true, false} {
			if hmac.Equal(before, compared(key, id, phc, typed, same)) {
				return same, now(same)
			}
		}
	}
	if *hashes == 0 {
		return true, nil
	}
	*hashes--
	same, _, err := s.deps.Hasher.Verify(ctx, phc, typed)
	if err != nil {
		return true, nil
	}
	return same, now(same)
}

// followGroups gives a person the groups that the configuration names. Where it names none, those of the storage stay.
func (s *Service) followGroups(ctx context.Context, id, called string, want, now []string,
	differs func(option, reason, fix string),
) error {
	if len(want) == 0 {
		if len(now) > 0 {
			differs("groups", "is in the groups "+strings.Join(now, ", ")+", and the Caddyfile names none",
				fmt.Sprintf("`caddy gatehouse group leave %s %s` takes the person out, or name the groups in the Caddyfile", shellword.Quote(now[0]), called))
		}
		return nil
	}
	if sameSet(now, want) {
		return nil
	}
	_, err := s.UpdatePerson(ctx, id, Edit{By: configuration}, func(_ storage.Tx, d *Details) error {
		d.Groups = slices.Clone(want)
		return nil
	})
	if IsRefusal(err) {
		differs("groups", "does not get the groups of the Caddyfile: "+err.Error(),
			"make the Caddyfile and the stored groups agree, and reload")
		return nil
	}
	return err
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// noteConfigured records that the configuration has a person, so their removal from it can be reported, and the result
// of the comparison of passwords.
func (s *Service) noteConfigured(ctx context.Context, id string, result []byte) error {
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		return configured.Put(tx, id, configuredRecord{Compared: result}, time.Time{})
	})
}

// noLongerConfigured returns the persons that the configuration had at the last start and no longer has. It returns
// each once: from then on they are like persons that were added by command.
func (s *Service) noLongerConfigured(ctx context.Context, present map[string]bool) (list []Difference, err error) {
	var gone []string
	var names map[string][2]string // the username, alone and as commands name it
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		gone, names = nil, map[string][2]string{}
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
				called, err := s.InPartition(rec.PartitionName(), rec.Username)
				if err != nil {
					return err
				}
				names[e.Key] = [2]string{rec.Username, called}
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
		if name, ok := names[id]; ok {
			list = append(list, Difference{
				name[0], "", "person " + name[0] + ": is no longer in the Caddyfile but can still sign in",
				fmt.Sprintf("`caddy gatehouse person block %s` ends that", shellword.Quote(name[1])),
			})
		}
	}
	return list, s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		for _, id := range gone {
			if err := configured.Delete(tx, id); err != nil {
				return err
			}
		}
		return nil
	})
}

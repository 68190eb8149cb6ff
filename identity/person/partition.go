package person

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Partitions keep persons apart: a username is unique within its partition. If partitions are on, partition\username
// names a person where only one field asks for it (sign-in page, password grant, commands). A username without a
// partition is in the default one.

// PartitionConfig says whether persons are kept in partitions.
type PartitionConfig struct {
	On bool
	// Names are the partitions that persons can be added to, besides the default one. Empty: any partition.
	Names []string
}

func (c PartitionConfig) check() error {
	for _, n := range c.Names {
		if err := authn.CheckPartition(n); err != nil {
			return fmt.Errorf("partition %q %w", n, err)
		}
	}
	return nil
}

// Partitioned reports whether persons are kept in partitions.
func (s *Service) Partitioned() bool { return s.cfg.Partitions.On }

// HasPartition reports whether persons can be in a partition: the default one, and the configured ones or any.
func (s *Service) HasPartition(name string) bool {
	names := s.cfg.Partitions.Names
	return name == audit.DefaultPartition || len(names) == 0 || slices.Contains(names, name)
}

// InPartition returns partition\username, which names a person where only one field asks for it, or a *ValidationError
// if the name of the partition is invalid.
func (s *Service) InPartition(partition, username string) (string, error) {
	if !s.cfg.Partitions.On {
		return username, nil
	}
	if authn.CheckPartition(partition) != nil {
		return "", &ValidationError{"partition", "is not a partition's name"}
	}
	return partition + `\` + username, nil
}

// SplitName returns the partition and the username of an entered name. ok is false if no person can have the name.
func (s *Service) SplitName(typed string) (partition, username string, ok bool) {
	if !s.cfg.Partitions.On {
		return audit.DefaultPartition, typed, true
	}
	partition, username, found := strings.Cut(strings.TrimSpace(typed), `\`)
	if !found {
		return audit.DefaultPartition, typed, true
	}
	partition = strings.ToLower(partition)
	return partition, username, authn.CheckPartition(partition) == nil
}

// FoldTyped returns the form of an entered name or address by which attempts and requests are counted. All spellings of
// a name have the same form, with the default partition and without.
func (s *Service) FoldTyped(typed string) string {
	partition, name, _ := s.SplitName(typed)
	folded, err := Fold(name)
	if err != nil {
		folded = FoldEmail(strings.TrimSpace(name))
	}
	if partition == audit.DefaultPartition {
		return folded
	}
	return partition + `\` + folded
}

// Place checks the partition of a new person, and returns n with its name filled in.
func (s *Service) Place(n NewPerson) (NewPerson, error) {
	c := s.cfg.Partitions
	if !c.On {
		if n.Partition != "" && n.Partition != audit.DefaultPartition {
			return n, &ValidationError{"partition", "cannot be chosen: partitions are off"}
		}
		n.Partition = audit.DefaultPartition
		return n, nil
	}
	partition, username, ok := s.SplitName(n.Username)
	if n.Partition == "" {
		n.Partition = partition
	} else if strings.Contains(n.Username, `\`) && partition != n.Partition {
		ok = false
	}
	n.Username = username
	if strings.Contains(username, `\`) {
		return n, errBackslash
	}
	known := len(c.Names) == 0 || n.Partition == audit.DefaultPartition || slices.Contains(c.Names, n.Partition)
	if !ok || authn.CheckPartition(n.Partition) != nil || !known {
		return n, &ValidationError{"partition", "is not one of this service"}
	}
	return n, nil
}

// outside returns the username and the groups of a person as applications know them: with the partition in front,
// unless it is the default one. Otherwise two persons of one username, or two groups of one name, would be the same to
// an application. (docs/decisions/persons.md#partitions-and-applications)
func (c PartitionConfig) outside(partition, username string, groups []string) (string, []string) {
	partition = stored(partition)
	foreign := func(n string) bool { return strings.Contains(n, `\`) } // reads like a name of another partition
	if partition == "" && !(c.On && (foreign(username) || slices.ContainsFunc(groups, foreign))) {
		return username, groups
	}
	prefix := cmp.Or(partition, audit.DefaultPartition) + `\`
	name := func(n string) string {
		if partition == "" && !foreign(n) {
			return n
		}
		return prefix + n
	}
	named := make([]string, len(groups))
	for i, g := range groups {
		named[i] = name(g)
	}
	return name(username), named
}

// inside is the inverse of outside for the name of a group.
func (c PartitionConfig) inside(partition, group string) string {
	if !c.On && stored(partition) == "" {
		return group
	}
	return strings.TrimPrefix(group, cmp.Or(partition, audit.DefaultPartition)+`\`)
}

// GroupsOutside returns the groups of a person as applications know them.
func (s *Service) GroupsOutside(p *Person) []string {
	_, groups := s.cfg.Partitions.outside(p.Partition, p.Username, p.Groups)
	return groups
}

// GroupExists reports whether there is a group of a name as outside writes it.
func (s *Service) GroupExists(tx storage.Tx, name string) (bool, error) {
	partition := ""
	if of, rest, ok := strings.Cut(name, `\`); ok && s.cfg.Partitions.On {
		partition, name = of, rest
	}
	id, err := s.GroupID(tx, partition, name)
	return id != "", err
}

// errBackslash refuses a username that could pass for the person of another partition.
var errBackslash = &ValidationError{"username", `must not have a \, which stands between a partition and a username`}

// stored returns the partition as records hold it: "" for the default one.
func stored(partition string) string {
	if partition == audit.DefaultPartition {
		return ""
	}
	return partition
}

// PartitionName returns the name of the person's partition.
func (r *Record) PartitionName() string {
	if r.Partition == "" {
		return audit.DefaultPartition
	}
	return r.Partition
}

// PartitionOfID returns the name of the partition of a person by their id: the default one if the id is unknown.
func PartitionOfID(tx storage.Tx, id string) (string, error) {
	rec, _, err := Records.Find(tx, id)
	return rec.PartitionName(), err
}

// PartitionOf returns the name of a person's partition.
func (s *Service) PartitionOf(p Person) string {
	if p.Partition == "" {
		return audit.DefaultPartition
	}
	return p.Partition
}

// ReadName returns the person who has a folded username. The default partition has a table of its own, since it is
// older than the others.
func ReadName(tx storage.Tx, partition, folded string) (UsernameRecord, error) {
	if partition == audit.DefaultPartition {
		return usernames.Get(tx, folded)
	}
	return partitionUsernames.Get(tx, storage.Key(partition, folded))
}

// createName takes a username for a person, or returns ErrUsernameTaken or a *ValidationError. Applications see
// partition\username, so no username has a backslash, in whatever width.
func createName(tx storage.Tx, partition, folded, id string) error {
	if strings.Contains(folded, `\`) {
		return errBackslash
	}
	var err error
	if rec := (UsernameRecord{PersonID: id}); partition == audit.DefaultPartition {
		err = usernames.Create(tx, folded, rec, time.Time{})
	} else {
		err = partitionUsernames.Create(tx, storage.Key(partition, folded), rec, time.Time{})
	}
	if errors.Is(err, storage.ErrExists) {
		return ErrUsernameTaken
	}
	return err
}

func deleteName(tx storage.Tx, partition, folded string) error {
	if partition == audit.DefaultPartition {
		return usernames.Delete(tx, folded)
	}
	return partitionUsernames.Delete(tx, storage.Key(partition, folded))
}

// nameEntry is a folded username and its person.
type nameEntry struct{ folded, id string }

// scanNames yields the names of a partition in order, beginning after the folded name after. limit 0: all.
func scanNames(tx storage.Tx, partition, after string, descending bool, limit int, yield func(nameEntry) (bool, error)) error {
	table, prefix := usernames, ""
	if partition != audit.DefaultPartition {
		table, prefix = partitionUsernames, string(storage.Prefix(partition))
	}
	r := storage.Range{Prefix: []byte(prefix), Descending: descending, Limit: limit}
	if after != "" {
		r.After = []byte(prefix + after)
	}
	for e, err := range table.Scan(tx, r) {
		if err != nil {
			return err
		}
		more, err := yield(nameEntry{e.Key[len(prefix):], e.Value.PersonID})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func countNames(tx storage.Tx, partition string) (n int64, err error) {
	err = scanNames(tx, partition, "", false, 0, func(nameEntry) (bool, error) { n++; return true, nil })
	return n, err
}

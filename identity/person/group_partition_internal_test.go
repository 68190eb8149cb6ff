package person

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

// TestGroupsOfBeforeAreSeparated: an earlier version had one group of a name for all partitions. Afterwards every
// partition with members has its own, with the same name and permissions, and nobody is in or out of a group who was
// not.
func TestGroupsOfBeforeAreSeparated(t *testing.T) {
	t.Parallel()
	mem, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() }) //nolint:errcheck // in memory
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := &Service{store: storagetest.Closures(t, mem), log: zap.NewNop(), cfg: Config{Partitions: PartitionConfig{On: true}}}
	update := func(fn func(tx storage.Tx) error) {
		t.Helper()
		if err := s.store.Update(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	group := func(tx storage.Tx, rec groupRecord, members ...string) string {
		id := uuid.NewString()
		rec.CreatedAt, rec.UpdatedAt, rec.Members, rec.Version = now, now, int64(len(members)), 3
		if err := groups.Put(tx, id, rec, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if err := groupNames.Put(tx, rec.Name, id, time.Time{}); err != nil {
			t.Fatal(err)
		}
		for _, m := range members {
			if err := groupMembers.Put(tx, storage.Key(id, m), struct{}{}, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		return id
	}
	persons := map[string]string{} // names by ids
	var everybody, acme []string
	staff := ""
	update(func(tx storage.Tx) error {
		persons, everybody, acme = map[string]string{}, nil, nil
		for i := range groupChunk + 50 {
			partition := []string{"", "acme", "globex"}[i%3]
			id := uuid.NewString()
			rec := Record{State: Active, Username: fmt.Sprintf("p%d", i), Partition: partition, Groups: []string{"staff", "acme-only"}, CreatedAt: now, UpdatedAt: now}
			if partition != "acme" {
				rec.Groups = rec.Groups[:1]
			}
			persons[id] = rec.PartitionName() + `\` + rec.Username
			everybody = append(everybody, id)
			if partition == "acme" {
				acme = append(acme, id)
			}
			if err := Records.Put(tx, id, rec, time.Time{}); err != nil {
				return err
			}
			if err := createName(tx, rec.PartitionName(), rec.Username, id); err != nil {
				return err
			}
		}
		staff = group(tx, groupRecord{Name: "staff", ExternalID: "e-1", Permissions: []string{"read"}}, everybody...)
		group(tx, groupRecord{Name: "acme-only"}, acme...)
		group(tx, groupRecord{Name: "empty", Permissions: []string{"x"}})
		return nil
	})
	if err := s.separateGroups(t.Context()); err != nil {
		t.Fatal(err)
	}
	look := func() string {
		var out []string
		err := s.store.View(t.Context(), func(tx storage.Tx) error {
			out = nil
			for _, partition := range []string{event.DefaultPartition, "acme", "globex", "other"} {
				list, err := s.Groups(tx, partition, "", 0)
				if err != nil {
					return err
				}
				for _, g := range list {
					members, err := s.Members(tx, g.ID, "", 0)
					if err != nil {
						return err
					}
					for _, m := range members {
						if !strings.HasPrefix(persons[m], partition+`\`) {
							t.Errorf("%s is in the group %s of %s", persons[m], g.Name, partition)
						}
					}
					if int64(len(members)) != g.Members {
						t.Errorf("group %s of %s has %d members and says %d", g.Name, partition, len(members), g.Members)
					}
					out = append(out, fmt.Sprintf("%s %s %q %v %d", partition, g.Name, g.ExternalID, g.Permissions, g.Members))
				}
			}
			if id, err := s.GroupID(tx, event.DefaultPartition, "staff"); err != nil || id != staff {
				t.Errorf("the group of the default partition has the id %s, want its own %s: %v", id, staff, err)
			}
			p, err := s.Permissions(tx, "acme", []string{"staff", "empty"})
			if got := fmt.Sprint(p); got != "map[empty:[] staff:[read]]" {
				t.Errorf("permissions in acme = %s", got)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(out)
		return strings.Join(out, "\n")
	}
	want := strings.Join([]string{
		`acme acme-only "" [] 83`, `acme staff "e-1" [read] 83`, `default acme-only "" [] 0`, `default empty "" [x] 0`, `default staff "e-1" [read] 84`, `globex staff "e-1" [read] 83`,
	}, "\n")
	if got := look(); got != want {
		t.Errorf("groups:\n%s\nwant\n%s", got, want)
	}
	// After an interruption, or at the next start, nothing is done twice.
	update(func(tx storage.Tx) error { return groupSteps.Delete(tx, separated) })
	for range 2 {
		if err := s.separateGroups(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := look(); got != want {
		t.Errorf("groups after doing it again:\n%s", got)
	}
	// The groups of a partition go on as its own.
	update(func(tx storage.Tx) error {
		if err := leaveGroup(tx, "acme", "staff", acme[0], now); err != nil {
			return err
		}
		return joinGroup(tx, "globex", "empty", everybody[2], now)
	})
	if got, want := look(), `globex empty "" [] 1`; !strings.Contains(got, want) || !strings.Contains(got, `acme staff "e-1" [read] 82`) {
		t.Errorf("groups after changes:\n%s", got)
	}
}

// TestNamesOutside: no two persons or groups of different partitions have one name at an application.
func TestNamesOutside(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		on                  bool
		partition, username string
		groups              []string
		want                string
	}{
		{false, "", "anna", []string{"staff", `acme\staff`}, `anna [staff acme\staff]`},
		{true, "", "anna", []string{"staff"}, `anna [staff]`},
		{true, "acme", "anna", []string{"staff"}, `acme\anna [acme\staff]`},
		{true, "", "anna", []string{"staff", `acme\staff`}, `anna [staff default\acme\staff]`},
		{true, "", `acme\anna`, []string{"staff"}, `default\acme\anna [staff]`},
		{true, "acme", "anna", []string{`globex\staff`}, `acme\anna [acme\globex\staff]`},
	} {
		s := &Service{cfg: Config{Partitions: PartitionConfig{On: tt.on}}}
		username, groups := s.outside(&Record{Partition: tt.partition, Username: tt.username, Groups: tt.groups})
		if got := fmt.Sprint(username, " ", groups); got != tt.want {
			t.Errorf("outside = %s, want %s", got, tt.want)
		}
		for i, g := range groups {
			if in := s.inside(tt.partition, g); in != tt.groups[i] {
				t.Errorf("inside(%s) = %s, want %s", g, in, tt.groups[i])
			}
		}
	}
}

package person

import (
	"fmt"
	"testing"
)

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

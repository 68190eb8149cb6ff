package fieldname_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/fieldname"
)

func TestSame(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"Remote-User": true, "REMOTE_USER": true, "remote.user": true, "Remote!User": true, "remote~user": true,
		"Remote-Users": false, "Remote-Use": false, "RemoteUser": false, "": false,
	} {
		if got := fieldname.Same("Remote-User", name); got != want {
			t.Errorf("Same(Remote-User, %q) = %v, want %v", name, got, want)
		}
		if plain := fieldname.Plain(name); want && !strings.EqualFold(plain, "Remote-User") {
			t.Errorf("Plain(%q) = %q", name, plain)
		}
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	long := "X-" + strings.Repeat("a", 80)
	s := fieldname.NewSet("Remote-User", "X-Auth", long)
	h := http.Header{"remote_user": {"ann"}, "X.auth": {"ann"}, strings.ToUpper(long): {"ann"}, "X-Author": {"bob"}}
	s.DeleteFrom(h)
	if left := slices.Collect(maps.Keys(h)); !slices.Equal(left, []string{"X-Author"}) {
		t.Errorf("left are %q, want X-Author alone", left)
	}
}

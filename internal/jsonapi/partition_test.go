package jsonapi_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

func TestPartition(t *testing.T) {
	t.Parallel()
	limits := map[string][]string{"one": {"acme"}, "two": {"acme", "globex"}}
	for _, tt := range []struct {
		name, client string
		header       []string
		off          bool // persons are not kept in partitions
		required     bool
		want         string
		status       int
	}{
		{name: "any", client: "all"},
		{name: "that of the header", client: "all", header: []string{"acme"}, want: "acme"},
		{name: "required and missing", client: "all", required: true, status: 400},
		{name: "peer 42: twice", client: "all", header: []string{"acme", "acme"}, status: 400},
		{name: "empty", client: "all", header: []string{""}, status: 400},
		{name: "while there are none", client: "one", header: []string{"globex"}, off: true},
		{name: "the only one", client: "one", required: true, want: "acme"},
		{name: "the only one by its name", client: "one", header: []string{"acme"}, want: "acme"},
		{name: "peer 42: another one", client: "one", header: []string{"globex"}, status: 403},
		{name: "peer 42: the default one", client: "one", header: []string{"default"}, status: 403},
		{name: "peer 17: a longer name", client: "one", header: []string{"acme2"}, status: 403},
		{name: "peer 17: a shorter name", client: "one", header: []string{"acm"}, status: 403},
		{name: "peer 42: two in one", client: "one", header: []string{"acme,globex"}, status: 403},
		{name: "peer 42: both", client: "one", header: []string{"acme", "globex"}, status: 400},
		{name: "peer 42: none of two", client: "two", status: 400},
		{name: "one of two", client: "two", header: []string{"globex"}, want: "globex"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := gate()
			g.Partitioned, g.Partitions = !tt.off, func(client string) []string { return limits[client] }
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			for _, v := range tt.header {
				r.Header.Add(jsonapi.PartitionHeader, v)
			}
			got, err := g.Partition(r, tt.client, tt.required)
			status, e := 0, new(jsonapi.Error)
			if errors.As(err, &e) {
				status = e.Status
			}
			if got != tt.want || status != tt.status || err != nil && status == 0 {
				t.Errorf("Partition = %q, %v, want %q, %d", got, err, tt.want, tt.status)
			}
		})
	}
}

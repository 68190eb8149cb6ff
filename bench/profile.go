package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// guides are profiles of the server, one for each measurement, for the profile-guided build.
type guides map[string]*profile.Profile

// profileOf takes a profile of the server during a measurement, if it is asked for. Call the result when the
// measurement has ended.
func (b *bench) profileOf(name string, d time.Duration) func() {
	guiding := *guide != "" && b.guides[name] == nil &&
		!slices.ContainsFunc([]string{"plain Caddy", "load generator", "oauth2-proxy", "dex", "node-oidc-provider", "site without"},
			func(other string) bool {
				return strings.HasPrefix(name, other)
			})
	if *profiled != name && !guiding {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := b.takeProfile(name, d, guiding); err != nil {
			fmt.Fprintln(os.Stderr, "bench: profile:", err)
		}
	}()
	return func() { <-done }
}

func (b *bench) takeProfile(name string, d time.Duration, guiding bool) error {
	slow := &http.Client{Timeout: time.Minute}
	res, err := slow.Get(fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", b.server.Admin(), max(1, int(d.Seconds()))))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if guiding {
		p, err := profile.Parse(res.Body)
		if err == nil {
			b.guides[name] = p
		}
		return err
	}
	f, err := os.Create(filepath.Join("..", "bin", "profile-"+name+".pb.gz"))
	if err != nil {
		return err
	}
	_, err = io.Copy(f, res.Body)
	fmt.Fprintln(os.Stderr, "bench: profile written:", f.Name())
	return errors.Join(err, f.Close())
}

// write writes the profiles as one. What says where they were taken is left out.
func (g guides) write(file string) error {
	var all []*profile.Profile
	for _, p := range g {
		all = append(all, p)
	}
	sum, err := profile.Merge(all)
	if err != nil {
		return err
	}
	for _, m := range sum.Mapping {
		m.File, m.BuildID = "gatehouse", ""
	}
	for _, l := range sum.Location {
		l.Address = 0
	}
	sum.Comments, sum.TimeNanos, sum.DurationNanos = nil, 0, 0
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(sum.Write(f), f.Close())
}

package api_test

import (
	"encoding/json"
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// BenchmarkValidate measures validate at the default cost of hashes, with as many requests at once as there are
// processors and three times as many waiting. It reports the rate next to the rate that the processors could reach with
// hashing alone.
func BenchmarkValidate(b *testing.B) {
	cost := secret.HashCost{Concurrency: runtime.NumCPU()}
	h := newPeopleCosting(b, cost)
	var names []string
	for i := range 4 * runtime.NumCPU() {
		names = append(names, "person"+strconv.Itoa(i))
		h.add(person.NewPerson{Username: names[i], Password: secret.New(demoPassword)})
	}
	began, alone := time.Now(), 0
	for ; time.Since(began) < 200*time.Millisecond; alone++ {
		if err := h.hasher.Waste(b.Context(), demoPassword); err != nil {
			b.Fatal(err)
		}
	}
	ceiling := float64(alone) / time.Since(began).Seconds() * float64(runtime.NumCPU())
	var next atomic.Int64
	b.SetParallelism(4)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		name := names[int(next.Add(1))%len(names)]
		for pb.Next() {
			h.clock.Advance(10 * time.Millisecond) // the pace of an API client is not what is measured
			if a := h.send(http.MethodPost, validatePath, string(must(json.Marshal(h.with(name, demoPassword))))); a.status() != 200 {
				b.Errorf("validate = %d %s", a.status(), a.Body)
			}
		}
	})
	reached := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(reached, "validations/s")
	b.ReportMetric(100*reached/ceiling, "%of-cores/cost")
}

package inventory

import (
	"context"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/admin/doctor"
)

const (
	examinationTime = 20 * time.Second // for all probes
	probeTime       = 5 * time.Second
)

// doctorRunner has the doctor of the command look at sites, one at a time in this process, so a form cannot be used to
// keep a server busy. It goes to the addresses that the configuration names alone; whether the certificate there is
// valid is not looked at, since nothing secret is sent.
type doctorRunner struct{ at sync.Mutex }

// onDuty is the physician of this process.
var onDuty doctorRunner

// Proxies implements inventory.Doctor.
func (*doctorRunner) Proxies() (all []string, own string) { return doctor.Proxies, doctor.Protect }

// Examine implements inventory.Doctor.
func (p *doctorRunner) Examine(ctx context.Context, e sites.Examination) (out []sites.Finding, err error) {
	if !p.at.TryLock() {
		return nil, sites.ErrBusy
	}
	defer p.at.Unlock()
	ctx, cancel := context.WithTimeout(ctx, examinationTime)
	defer cancel()
	report, err := doctor.Run(ctx, doctor.Options{Live: true, Proxy: e.Proxy, URL: e.URL, Public: e.Public, Insecure: true, Wait: probeTime})
	if err != nil {
		return nil, &sites.Wrong{Reason: err.Error()}
	}
	for _, r := range report.Probes {
		out = append(out, sites.Finding{Probe: r.Name, Verdict: r.Verdict, What: r.What, Fix: r.Fix})
	}
	return out, nil
}

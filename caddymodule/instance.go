package caddymodule

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/alert"
	"github.com/gatehouse-id/gatehouse/admin/backup"
	"github.com/gatehouse-id/gatehouse/admin/console"
	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/assertion"
	"github.com/gatehouse-id/gatehouse/authz/transaction"
	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy/stored"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider"
	"github.com/gatehouse-id/gatehouse/caddymodule/shared"
	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/pwned"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// instance is one running configuration. open makes it, and it ends when its last user leaves.
type instance struct {
	authz      *authz.Server
	assertions *assertion.Signer
	// transactions begins transactions at sites.
	transactions *transaction.Signer
	providers    *provider.Manager
	identity     *identity.Service
	access       *access.Service
	config       *settings.Service
	policies     *stored.Keeper
	pages        *web.Renderer
	gate         *jsonapi.Gate
	console      *console.Console
	manage       *admin.Service
	backups      *backup.Service
	alerts       *alert.Service
	apis         []pathHandler
	gates        *forwardauth.Gates
	tell         *teller
	mail         *notify.Mail   // nil: none
	texts        *notify.Texts  // nil: none
	pushes       *notify.Pushes // nil: none
	breach       *pwned.Checker
	issuer       *url.URL
	core         *shared.Core
	admit        func(r *http.Request, size int) bool // whether the network of a request may begin one more sign-in, of size bytes
	hasRules     func(string) bool                    // whether a site of this configuration has these rules
	log          *zap.Logger
	now          func() time.Time

	closers []closer // of the parts above, in the order in which they were opened

	stop    context.CancelFunc // ends the worker
	stopped chan struct{}      // closed when it has

	panics atomic.Int64 // of authz and identity, as far as they are counted

	users atomic.Int64  // the app itself and the requests under way
	gone  chan struct{} // closed when the last user has left
}

// closer closes a part of an instance.
type closer struct {
	part  string // for the log
	close func() error
}

// onClose adds what closes a part that has just been opened.
func (i *instance) onClose(part string, closePart func() error) {
	i.closers = append(i.closers, closer{part, closePart})
}

// close closes the parts, the last one first. One that fails is logged, and the others are closed all the same.
func (i *instance) close() {
	for _, c := range slices.Backward(i.closers) {
		if err := c.close(); err != nil {
			i.log.Error("not closed cleanly", zap.String("part", c.part), zap.Error(err))
		}
	}
	i.closers = nil
}

// work starts the work that no request asks for. It goes on until the last user leaves.
func (i *instance) work(a *App) {
	ctx, stop := context.WithCancel(context.Background())
	i.stop, i.stopped = stop, make(chan struct{})
	go func() {
		defer close(i.stopped)
		var workers sync.WaitGroup
		workers.Go(func() { i.watchCertificates(ctx) })
		workers.Go(func() { i.logParties(ctx, a) })
		workers.Go(func() { i.core.Node.Lead(ctx, shared.RoleReseal, i.keepSealed) })
		workers.Go(func() { i.core.Node.Lead(ctx, shared.RoleManage, i.console.Run) })
		workers.Go(func() { i.identity.ServiceProviders.Run(ctx) })
		for _, w := range i.tell.webhooks {
			workers.Go(func() { w.Run(ctx) })
		}
		if i.mail != nil {
			workers.Go(func() { i.mail.Run(ctx) })
		}
		if i.texts != nil {
			workers.Go(func() { i.texts.Run(ctx) })
		}
		if i.pushes != nil {
			workers.Go(func() { i.pushes.Run(ctx) })
		}
		if err := i.authz.Run(ctx); err != nil {
			i.log.Error("worker stopped", zap.Error(err))
		}
		workers.Wait()
	}()
	go i.tell.emit(a.ctx, a.emitter, a.begun.given, a.log) // not waited for: it ends with the context, and its handlers belong to others
}

// hold adds a user, unless the last one has left.
func (i *instance) hold() bool {
	for {
		n := i.users.Load()
		if n == 0 {
			return false
		}
		if i.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave undoes App.enter. The last user of a configuration that has ended has the instance closed, and does not wait
// for its workers and stores: the user is a request that someone waits for.
func (i *instance) leave() { i.drop() }

// drop is leave, and reports whether this was the last user.
func (i *instance) drop() (last bool) {
	if i.users.Add(-1) > 0 {
		return false
	}
	i.stop()
	go func() {
		<-i.stopped
		i.close()
		close(i.gone)
	}()
	return true
}

// drained waits until the last user has left, but not longer than most.
func (i *instance) drained(most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-i.gone:
	case <-timer.C:
		i.log.Warn("requests were still under way at the end")
	}
}

// check reports whether the instance can serve and write.
func (i *instance) check(ctx context.Context) error {
	return shared.Check(ctx, i.core.Node, i.core.Store)
}

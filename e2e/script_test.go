package e2e

import (
	"os"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestScripts: scripts add functions to pages without moving anything, and everything else works without them.
func TestScripts(t *testing.T) {
	t.Parallel()
	_, s := openShop(t)
	axe, err := os.ReadFile("node/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make install", err)
	}
	b := s.browse(t)
	const reveal = "button[data-reveal=password]"
	b.open(s.Issuer + "/account")
	b.fill("#password", "half of a pass")
	b.do(chromedp.Click(chromedp.CSS(reveal)))
	b.until(`document.querySelector("#password").type === "text" && document.querySelector("` + reveal + `").ariaPressed === "true"`)
	inspect(b, "password-shown", string(axe))
	if got := eval[string](b, `document.querySelector("#password").value`); got != "half of a pass" {
		t.Errorf("the field holds %q", got)
	}
	b.do(chromedp.Click(chromedp.CSS(reveal)))
	b.until(`document.querySelector("#password").type === "password"`)
	b.do(chromedp.Click(chromedp.CSS(reveal)))
	b.until(`document.querySelector("#password").type === "text"`)
	b.signIn(person, "half of a pass")
	if eval[string](b, `document.querySelector("#password").type`) != "password" {
		t.Error("the page that follows shows the password")
	}
	shift := get(b, chromedp.Evaluate[float64](`new Promise(done => {
		let sum = 0
		new PerformanceObserver(list => { for (const e of list.getEntries()) sum += e.hadRecentInput ? 0 : e.value }).observe({type: "layout-shift", buffered: true})
		setTimeout(() => done(sum), 200)
	})`, chromedp.EvalAwaitPromise))
	if shift > 0.05 {
		t.Errorf("the page moves by %.3f while it loads", shift)
	}

	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.open(s.Issuer + "/account")
	b.screen(390, 844, "light")
	b.shot("page-no-script-phone-light")
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: false})
	for _, selector := range []string{reveal, "form[data-passkey]"} {
		if eval[bool](b, `document.querySelector(`+quote(selector)+`).checkVisibility()`) {
			t.Errorf("%s can be seen where no script runs", selector)
		}
	}
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.open(s.Issuer + "/account")
	b.signIn(person, s.Password)
	b.reaches(s.Issuer + "/account")
}

package archtest

func init() {
	mayImportRows(`
.: caddymodule
bench: faults storage
cmd: .
docs/integrations:
e2e: faults
faults: storage
release:
`)
}

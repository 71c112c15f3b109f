package control

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testKey is a key text of the right shape.
const (
	testKey  = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
	otherKey = "PUAXw-hDiVqStwqnTRt-vJyYLM8uxJaMwM1V8Sr0Zgw"
	idA      = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
	idB      = "1a1b2c3d4e5f60718293a4b5c6d7e8f9"
	idC      = "2a1b2c3d4e5f60718293a4b5c6d7e8f9"
	cluster1 = "ffeeddccbbaa99887766554433221100"
)

func ms(v int64) *int64 { return &v }

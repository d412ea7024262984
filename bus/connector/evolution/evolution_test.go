package evolution_test

import (
	"testing"

	"github.com/musterhq/muster/bus/connector/connectortest"
	"github.com/musterhq/muster/bus/connector/evolution"
)

func TestRecordedSequences(t *testing.T) {
	connectortest.Play(t, evolution.New(), "../connectortest/testdata/evolution")
}

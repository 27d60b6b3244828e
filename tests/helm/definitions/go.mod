module epp.test/definitions

go 1.26.0

// build.sh takes their CustomResourceDefinitions.
require (
	github.com/prometheus-operator/prometheus-operator v0.85.0
	istio.io/api v1.32.0
	sigs.k8s.io/gateway-api v1.6.1
)

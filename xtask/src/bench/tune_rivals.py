"""Rival optimisers over a finite table: JSON lines in, JSON lines out. Usage: tune_rivals.py optuna-tpe|optuna-gp|skopt"""
import json
import random
import sys
import warnings

warnings.filterwarnings("ignore")


class Optuna:
    """Constraints by the sampler's own constraint function; a combination that is not in the table costs no trial."""

    def __init__(self, kind):
        import optuna

        if kind == "gp":
            import torch  # noqa: F401

        self.optuna, self.kind = optuna, kind
        optuna.logging.set_verbosity(optuna.logging.ERROR)

    def begin(self, parameters, seed):
        samplers = self.optuna.samplers
        constraints = lambda trial: trial.user_attrs.get("misses", [10.0])
        cls = samplers.TPESampler if self.kind == "tpe" else samplers.GPSampler
        self.study = self.optuna.create_study(sampler=cls(seed=seed, constraints_func=constraints))
        self.space = {}
        for index, parameter in enumerate(parameters):
            levels = parameter["levels"]
            distributions = self.optuna.distributions
            self.space[str(index)] = (
                distributions.IntDistribution(0, levels - 1)
                if parameter["ordered"]
                else distributions.CategoricalDistribution(list(range(levels)))
            )

    def ask(self):
        self.trial = self.study.ask(self.space)
        return [self.trial.params[str(index)] for index in range(len(self.space))]

    def tell(self, levels, loss, misses):
        params = {str(index): level for index, level in enumerate(levels)}
        frozen = self.optuna.trial.create_trial(
            params=params,
            distributions=self.space,
            value=loss,
            user_attrs={"misses": misses},
            system_attrs={"constraints": misses},
        )
        self.study.add_trial(frozen)


class Skopt:
    """A Gaussian process over one score: failures and broken constraints are penalised, as its users do."""

    def __init__(self):
        import skopt

        self.skopt = skopt

    def begin(self, parameters, seed):
        space = self.skopt.space
        dimensions = [
            space.Integer(0, p["levels"] - 1) if p["ordered"] and p["levels"] > 1 else space.Categorical(list(range(p["levels"])))
            for p in parameters
        ]
        self.optimizer = self.skopt.Optimizer(dimensions, random_state=seed, n_initial_points=5, acq_optimizer="sampling")
        self.worst = 0.0

    def ask(self):
        return [int(level) for level in self.optimizer.ask()]

    def tell(self, levels, loss, misses):
        broken = sum(max(miss, 0.0) for miss in misses)
        if broken == 0.0:
            self.worst = max(self.worst, loss)
        self.optimizer.tell(levels, loss if broken == 0.0 else self.worst + 1.0 + min(broken, 5.0))


def main():
    name = sys.argv[1]
    try:
        rival = Skopt() if name == "skopt" else Optuna(name.split("-")[1])
    except Exception as error:  # noqa: BLE001
        print(json.dumps({"skip": f"{name}: {error}"}), flush=True)
        return
    tries = 1 if name == "skopt" else 20
    print(json.dumps({"ready": name}), flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if "begin" in message:
            begin = message["begin"]
            table = {tuple(levels): index for index, levels in enumerate(begin["candidates"])}
            tried, generator = set(), random.Random(begin["seed"])
            rival.begin(begin["parameters"], begin["seed"])
        elif "ask" in message:
            chosen = None
            for _ in range(tries):
                levels = tuple(rival.ask())
                candidate = table.get(levels)
                if candidate is not None and candidate not in tried:
                    chosen = candidate
                    break
            if chosen is None:
                # The nearest candidate that is left, by levels; any of equals.
                left = [row for row, index in table.items() if index not in tried]
                generator.shuffle(left)
                chosen = table[min(left, key=lambda row: sum(abs(a - b) for a, b in zip(row, levels)))]
            print(json.dumps({"candidate": chosen}), flush=True)
        else:
            tell = message["tell"]
            tried.add(tell["candidate"])
            levels = begin["candidates"][tell["candidate"]]
            failed = tell["loss"] is None
            rival.tell(levels, 20.0 if failed else tell["loss"], [10.0] if failed and not tell["misses"] else (tell["misses"] or [-1.0]))


main()

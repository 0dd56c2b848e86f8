"""Makes values.def: what PyTorch's optimizers and schedulers give for the inputs of test_rules.c and test_lr.c.

    python tests/unit/optim/values.py > tests/unit/optim/values.def      (needs torch)

Parameters and gradients are formulas of the element's index and the step, the same here and there.
"""
import torch

COUNT, STEPS = 6, 5


def param():
    return torch.tensor([((i * 37 + 13) % 257 - 128) / 64 for i in range(COUNT)], dtype=torch.float32)


def gradient(step):
    return torch.tensor([((i * 53 + step * 101 + 7) % 127 - 63) / 64 for i in range(COUNT)], dtype=torch.float32)


def numbers(values):
    return ", ".join(f"{v:.9g}" for v in values)


def rule(name, kind, states, make, lr, **options):
    p = torch.nn.Parameter(param())
    optimizer = make([p], lr=lr, **options)
    for step in range(STEPS):
        p.grad = gradient(step)
        optimizer.step()
    state = optimizer.state[p]
    rows = [p.detach().tolist()] + [(state.get(s) if state.get(s) is not None else torch.zeros(COUNT)).tolist() for s in states]
    while len(rows) < 3:
        rows.append([0.0] * COUNT)
    beta1, beta2 = options.get("betas", (0.9, 0.999))
    told = [lr, options.get("momentum", 0.0), options.get("weight_decay", 0.0), beta1, beta2, options.get("eps", 1e-8)]
    nesterov = "true" if options.get("nesterov") else "false"
    print(f'RULE("{name}", "{kind}", CONFIG({numbers(told)}, {nesterov}),')
    print(",\n".join(f"     ARRAY({numbers(row)})" for row in rows) + ")")


def policy(name, kind, base, gamma, total, size, make, low=0.0):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=low or base)
    scheduler = make(optimizer)
    rates = []
    for _ in range(total):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    print(f'POLICY("{name}", {kind}, {base!r}, {gamma!r}, {low!r}, {total}, {size},')
    print(f"       ARRAY({', '.join(repr(r) for r in rates)}))")


S, AD, AW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
momentum, moments = ["momentum_buffer"], ["exp_avg", "exp_avg_sq"]
print("/* Made by values.py with torch " + torch.__version__.split("+")[0] + ". */")
print("/* clang-format off */")
rule("sgd plain", "sgd", [], S, 0.1)
rule("sgd decay", "sgd", [], S, 0.1, weight_decay=0.05)
rule("sgd momentum", "sgd", momentum, S, 0.1, momentum=0.9)
rule("sgd momentum decay", "sgd", momentum, S, 0.1, momentum=0.9, weight_decay=0.05)
rule("sgd nesterov", "sgd", momentum, S, 0.1, momentum=0.9, nesterov=True)
rule("sgd nesterov decay", "sgd", momentum, S, 0.05, momentum=0.8, weight_decay=0.01, nesterov=True)
rule("adam", "adam", moments, AD, 0.01)
rule("adam decay", "adam", moments, AD, 0.01, weight_decay=0.1, betas=(0.8, 0.95), eps=1e-3)
rule("adamw", "adamw", moments, AW, 0.01, weight_decay=0.0)
rule("adamw decay", "adamw", moments, AW, 0.01, weight_decay=0.1)
rule("adamw other", "adamw", moments, AW, 0.5, weight_decay=0.3, betas=(0.5, 0.7), eps=1e-2)
L = torch.optim.lr_scheduler
policy("cosine", "LR_COSINE", 0.1, 0.1, 10, 0, lambda o: L.CosineAnnealingLR(o, T_max=10))
policy("step", "LR_STEP", 0.1, 0.5, 10, 3, lambda o: L.StepLR(o, step_size=3, gamma=0.5))
policy("linear", "LR_LINEAR", 0.2, 0.1, 8, 0, lambda o: L.LinearLR(o, start_factor=1.0, end_factor=0.0, total_iters=8))
policy("const", "LR_CONST", 0.3, 0.1, 4, 0, lambda o: L.ConstantLR(o, factor=1.0))
policy("range", "LR_RANGE", 10.0, 0.1, 10, 0, lambda o: L.ExponentialLR(o, gamma=(10 / 1e-7) ** (1 / 9)), low=1e-7)

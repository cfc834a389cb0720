"""From the Python source of a kernel to Triton IR."""

import ast
from dataclasses import dataclass

from .. import language as tl

POINTER, INT, FLOAT, BOOL = "!tt.ptr<f32>", "i32", "f32", "i1"
TYPES = {"*fp32": POINTER, "i32": INT}
OPERATORS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}


class CompilationError(Exception):
    pass


@dataclass(frozen=True)
class Value:
    name: str
    element: str
    size: int = 0  # 0: a scalar

    @property
    def type(self):
        return f"tensor<{self.size}x{self.element}>" if self.size else self.element


class Generator:
    def __init__(self, fn, signature, constants):
        self.fn, self.scope, self.lines, self.count = fn, dict(constants), [], 0
        arguments = []
        for name in fn.arg_names:
            kind = signature[name]
            if kind == "constexpr":
                if name not in constants:
                    raise CompilationError(f"{name} is a constexpr without a value")
                continue
            if kind not in TYPES:
                raise CompilationError(f"{name}: the miniature knows *fp32 and i32, not {kind}")
            self.scope[name] = Value(f"%{name}", TYPES[kind])
            arguments.append(f"%{name}: {TYPES[kind]}")
        self.header = f"  tt.func public @{fn.__name__}({', '.join(arguments)})"

    def fail(self, node, why):
        raise CompilationError(f"at {getattr(node, 'lineno', 0)}:{getattr(node, 'col_offset', 0)}: {why}")

    def emit(self, text, element, size=0):
        value = Value(f"%{self.count}", element, size)
        self.count += 1
        self.lines.append(f"    {value.name} = {text}")
        return value

    def run(self):
        body = ast.parse(self.fn.src).body[0].body
        for statement in body:
            self.statement(statement)
        return "\n".join(["module {", self.header + " attributes {noinline = false} {",
                          *self.lines, "    tt.return", "  }", "}", ""])

    def statement(self, node):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            self.scope[node.targets[0].id] = self.expression(node.value)
        elif isinstance(node, ast.Expr):
            self.expression(node.value)
        else:
            self.fail(node, f"the miniature does not know {type(node).__name__}")

    def expression(self, node):
        if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, (int, str))):
            return node.value
        if isinstance(node, ast.Name):
            if node.id not in self.scope:
                self.fail(node, f"{node.id} is not defined")
            return self.scope[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return self.binary(node, OPERATORS[type(node.op)])
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Lt):
            return self.less(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        self.fail(node, f"the miniature does not know this {type(node).__name__}")

    def scalar(self, value):
        """A Python number becomes a constant of the IR."""
        if isinstance(value, int):
            return self.emit(f"arith.constant {value} : {INT}", INT)
        return value

    def broadcast(self, node, left, right):
        left, right = self.scalar(left), self.scalar(right)
        size = max(left.size, right.size)
        if {left.size, right.size} - {0, size}:
            self.fail(node, f"incompatible sizes {left.size} and {right.size}")

        def widen(value):
            if value.size == size:
                return value
            wide = Value("", value.element, size)
            return self.emit(f"tt.splat {value.name} : {value.type} -> {wide.type}", wide.element, size)

        return widen(left), widen(right)

    def binary(self, node, operator):
        left, right = self.expression(node.left), self.expression(node.right)
        if isinstance(left, int) and isinstance(right, int):
            return {"add": left + right, "sub": left - right, "mul": left * right}[operator]
        a, b = self.broadcast(node, left, right)
        if (a.element, b.element, operator) == (POINTER, INT, "add"):
            return self.emit(f"tt.addptr {a.name}, {b.name} : {a.type}, {b.type}", POINTER, a.size)
        if a.element != b.element or a.element not in (INT, FLOAT):
            self.fail(node, f"cannot {operator} {a.type} and {b.type}")
        suffix = "i" if a.element == INT else "f"
        return self.emit(f"arith.{operator}{suffix} {a.name}, {b.name} : {a.type}", a.element, a.size)

    def less(self, node):
        a, b = self.broadcast(node, self.expression(node.left), self.expression(node.comparators[0]))
        if (a.element, b.element) != (INT, INT):
            self.fail(node, "the miniature compares integers only")
        return self.emit(f"arith.cmpi slt, {a.name}, {b.name} : {a.type}", BOOL, a.size)

    def call(self, node):
        function = node.func
        owner = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
        if not owner or self.fn.globals.get(function.value.id) is not tl:
            self.fail(node, "the miniature calls functions of triton.language only")
        arguments = [self.expression(argument) for argument in node.args]
        keywords = {keyword.arg: self.expression(keyword.value) for keyword in node.keywords}
        handler = getattr(self, f"call_{function.attr}", None)
        if handler is None:
            self.fail(node, f"the miniature does not know triton.language.{function.attr}")
        try:
            return handler(node, *arguments, **keywords)
        except TypeError as error:
            self.fail(node, f"triton.language.{function.attr}: {error}")

    def call_program_id(self, _node, axis):
        return self.emit(f"tt.get_program_id {'xyz'[axis]} : {INT}", INT)

    def call_arange(self, node, start, end):
        if not isinstance(end, int) or start != 0 or end & (end - 1) or end <= 0:
            self.fail(node, "arange's range must be from 0 to a power of 2")
        return self.emit(f"tt.make_range {{end = {end} : i32, start = 0 : i32}} : tensor<{end}xi32>",
                         INT, end)

    def call_load(self, node, pointer, mask=None):
        self.check_access(node, pointer, mask)
        return self.emit(f"tt.load {pointer.name}, {mask.name} : {pointer.type}", FLOAT, pointer.size)

    def call_store(self, node, pointer, value, mask=None):
        self.check_access(node, pointer, mask)
        if not isinstance(value, Value) or (value.element, value.size) != (FLOAT, pointer.size):
            self.fail(node, "the miniature stores float32 vectors only")
        self.lines.append(f"    tt.store {pointer.name}, {value.name}, {mask.name} : {pointer.type}")

    def check_access(self, node, pointer, mask):
        if not isinstance(pointer, Value) or pointer.element != POINTER or not pointer.size:
            self.fail(node, "expected a vector of pointers")
        if not isinstance(mask, Value) or (mask.element, mask.size) != (BOOL, pointer.size):
            self.fail(node, "the miniature needs a mask of the pointers' size")


def generate(fn, signature, constants):
    return Generator(fn, signature, constants).run()
